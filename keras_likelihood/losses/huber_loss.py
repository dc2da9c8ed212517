"""Huber's loss with a learned scale."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Huber
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss


@serializable
class HuberLoss(LocationScaleLoss):
    """Negative log-likelihood of Huber's density.

        rho(z) + log(scale) + log Z(threshold),  z = (y - prediction) / scale

    rho is Huber's loss. It is half the square up to the threshold and a
    straight line beyond it.

    ```python
    model.compile("adam", loss=kl.losses.HuberLoss(threshold=1.345))
    ```

    Args:
        threshold: where the tails begin, in scales: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        scale: the scale, given in the same ways.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = Huber

    def __init__(self, threshold=None, scale=None, **options):
        super().__init__(threshold=threshold, scale=scale, **options)
