"""Absolute error with its scale set free."""

from keras_likelihood.likelihoods import Laplace
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss
from keras_likelihood.registration import serializable


@serializable
class LaplaceLoss(LocationScaleLoss):
    """Negative log-likelihood of the Laplace distribution.

        |y - prediction| / scale + log(2 scale)

    With `beta=1` and `ScaleHead(..., isolated=True)` the model is the one
    that absolute error would train.

    ```python
    model.compile("adam", loss=kl.losses.LaplaceLoss())
    ```

    Args:
        scale: mean absolute deviation: a number, `"global"`, a
            `GlobalParameter`, or `None` (default) for the head's, else a
            learned one.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = Laplace

    def __init__(self, scale=None, **options):
        super().__init__(scale=scale, **options)
