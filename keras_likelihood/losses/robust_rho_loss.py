"""A regression loss that learns how robust to be."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import RobustRho
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss


@serializable
class RobustRhoLoss(LocationScaleLoss):
    """Negative log-likelihood of Barron's general robust distribution.

        rho(y - prediction, shape, scale) + log(scale) + log Z(shape)

    `shape` sets the tails: 2 is normal, 1 a smooth absolute error, 0 Cauchy.
    A learned one stays in (0, 3).

    At `beta=1` the expected gradient by the prediction has no first-order
    change with the scale. The weight depends on `shape`, see
    `LocationScaleLoss`.

    ```python
    model.compile("adam", loss=kl.losses.RobustRhoLoss())           # both
    model.compile("adam", loss=kl.losses.RobustRhoLoss(shape=1.0))  # scale
    ```

    Args:
        shape: alpha: a number, `"global"`, a `GlobalParameter`, or `None`
            (default). With `None` the head predicts it, or else the loss
            learns it.
        scale: the scale, given in the same ways.
        **options: `beta` and `balanced` of `LocationScaleLoss`; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    likelihood = RobustRho

    def __init__(self, shape=None, scale=None, **options):
        super().__init__(shape=shape, scale=scale, **options)
