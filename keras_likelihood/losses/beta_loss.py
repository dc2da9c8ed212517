"""A loss for shares between 0 and 1."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Beta
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class BetaLoss(LikelihoodLoss):
    """Negative log-likelihood of the beta distribution.

        variance = prediction (1 - prediction) / (1 + concentration)

    The prediction is the mean share: use `LikelihoodHead("beta", units)`, or
    the activation `"sigmoid"`. Targets lie strictly between 0 and 1.

    ```python
    model.compile("adam", loss=kl.losses.BetaLoss())
    ```

    Args:
        concentration: the higher, the narrower: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = Beta

    def __init__(self, concentration=None, **options):
        super().__init__(concentration=concentration, **options)
