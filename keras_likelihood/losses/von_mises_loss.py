"""A loss for angles."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import VonMises
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class VonMisesLoss(LikelihoodLoss):
    """Negative log-likelihood of the von Mises distribution of angles.

        concentration (1 - cos(y - prediction)) + log Z(concentration)

    Angles are in radians, and whole turns do not matter.

    ```python
    model.compile("adam", loss=kl.losses.VonMisesLoss())
    ```

    Args:
        concentration: the higher, the narrower: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = VonMises

    def __init__(self, concentration=None, **options):
        super().__init__(concentration=concentration, **options)
