"""A loss for positive numbers with a constant relative spread."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Gamma
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class GammaLoss(LikelihoodLoss):
    """Negative log-likelihood of the gamma distribution.

        standard deviation = prediction / sqrt(shape)

    The prediction is the mean and must be `>= 0`: use
    `LikelihoodHead("gamma", units)`, or an activation such as `"softplus"`.
    Targets are `> 0`.

    ```python
    model.compile("adam", loss=kl.losses.GammaLoss())
    ```

    Args:
        shape: 1 / (standard deviation / mean)^2: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = Gamma

    def __init__(self, shape=None, **options):
        super().__init__(shape=shape, **options)
