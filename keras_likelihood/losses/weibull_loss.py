"""A loss for lifetimes."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Weibull
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class WeibullLoss(LikelihoodLoss):
    """Negative log-likelihood of the Weibull distribution.

        z^shape - shape log(z) + log(y) - log(shape),    z = y / scale

    The prediction is the mean and must be `>= 0`; the scale follows from it:
    use `LikelihoodHead("weibull", units)`, or an activation such as
    `"softplus"`. Targets are `> 0`.

    ```python
    model.compile("adam", loss=kl.losses.WeibullLoss())
    ```

    Args:
        shape: below 1 the hazard falls with time, above 1 it rises: a number,
            `"global"`, a `GlobalParameter`, or `None` (default). With `None`
            the head predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = Weibull

    def __init__(self, shape=None, **options):
        super().__init__(shape=shape, **options)
