"""A regression loss between squared and absolute error."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Logistic
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss


@serializable
class LogisticLoss(LocationScaleLoss):
    """Negative log-likelihood of the logistic distribution.

        z + 2 log(1 + exp(-z)) + log(scale),    z = (y - prediction) / scale

    Up to its scale and a constant it is Keras' `"log_cosh"` with a learned
    width.

    ```python
    model.compile("adam", loss=kl.losses.LogisticLoss())
    ```

    Args:
        scale: a number, `"global"`, a `GlobalParameter`, or `None` (default).
            With `None` the head predicts it, or else the loss learns it.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = Logistic

    def __init__(self, scale=None, **options):
        super().__init__(scale=scale, **options)
