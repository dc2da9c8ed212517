"""Absolute error with a learned scale."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Laplace
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss


@serializable
class LaplaceLoss(LocationScaleLoss):
    """Negative log-likelihood of the Laplace distribution.

        |y - prediction| / scale + log(2 scale)

    With `beta=1` and `ScaleHead(..., isolated=True)` the predictions are
    trained exactly as by absolute error.

    ```python
    model.compile("adam", loss=kl.losses.LaplaceLoss())
    ```

    Args:
        scale: mean absolute deviation: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = Laplace

    def __init__(self, scale=None, **options):
        super().__init__(scale=scale, **options)
