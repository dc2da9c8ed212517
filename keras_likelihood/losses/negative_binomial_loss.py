"""A loss for counts that vary more than Poisson counts."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import NegativeBinomial
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class NegativeBinomialLoss(LikelihoodLoss):
    """Negative log-likelihood of the negative binomial distribution.

        variance = prediction + dispersion * prediction^2

    The prediction is the mean count and must be `>= 0`: use
    `LikelihoodHead("negative_binomial", units)`, or an activation such as
    `"softplus"`.

    ```python
    model.compile("adam", loss=kl.losses.NegativeBinomialLoss())
    ```

    Args:
        dispersion: (variance - mean) / mean^2: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = NegativeBinomial

    def __init__(self, dispersion=None, **options):
        super().__init__(dispersion=dispersion, **options)
