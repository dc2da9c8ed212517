"""A loss for numbers whose logarithm is normal."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import LogNormal
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class LogNormalLoss(LikelihoodLoss):
    """Negative log-likelihood of the log-normal distribution.

        log(y) is normal around log(prediction) - scale^2 / 2

    The prediction is the mean and must be `>= 0`: use
    `LikelihoodHead("log_normal", units)`, or an activation such as
    `"softplus"`. Targets are `> 0`.

    ```python
    model.compile("adam", loss=kl.losses.LogNormalLoss())
    ```

    Args:
        scale: standard deviation of log(y): a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = LogNormal

    def __init__(self, scale=None, **options):
        super().__init__(scale=scale, **options)
