"""Huber's loss with its scale set free."""

from keras_likelihood.likelihoods import Huber
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss
from keras_likelihood.registration import serializable


@serializable
class HuberLoss(LocationScaleLoss):
    """Negative log-likelihood of Huber's density.

        rho(z) + log(scale) + log Z(threshold),  z = (y - prediction) / scale

    with rho Huber's loss: half the square up to the threshold, a straight
    line from there on.

    ```python
    model.compile("adam", loss=kl.losses.HuberLoss(threshold=1.345))
    ```

    Args:
        threshold: where the tails begin, in scales: a number, `"global"`, a
            `GlobalParameter`, or `None` (default) for the head's, else a
            learned one.
        scale: likewise.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = Huber

    def __init__(self, threshold=None, scale=None, **options):
        super().__init__(threshold=threshold, scale=scale, **options)
