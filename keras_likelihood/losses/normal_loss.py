"""Squared error with a learned scale."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Normal
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss


@serializable
class NormalLoss(LocationScaleLoss):
    """Negative log-likelihood of the normal distribution.

        (y - prediction)^2 / (2 scale^2) + log(scale) + log(2 pi) / 2

    With `beta=1` and `ScaleHead(..., isolated=True)` the predictions are
    trained exactly as by squared error, and the scale is fitted to their
    residuals.

    ```python
    model.compile("adam", loss=kl.losses.NormalLoss())           # from a head
    model.compile("adam", loss=kl.losses.NormalLoss(scale=0.5))  # fixed
    ```

    Args:
        scale: standard deviation: a number, `"global"`, a `GlobalParameter`,
            or `None` (default). With `None` the head predicts it, or else the
            loss learns it.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = Normal

    def __init__(self, scale=None, **options):
        super().__init__(scale=scale, **options)
