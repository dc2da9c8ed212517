"""A robust error of vectors, with their covariance set free."""

from keras_likelihood.likelihoods import MultivariateStudentT
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.registration import serializable


@serializable
class MultivariateStudentTLoss(LikelihoodLoss):
    """Negative log-likelihood of vectors under MultivariateStudentT.

    ```python
    loss = kl.losses.MultivariateStudentTLoss(covariance="full")
    outputs = kl.layers.LikelihoodHead(loss.likelihood, 4)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=loss)
    ```

    Args:
        covariance: `"full"` (default), `"low_rank"` or `"diagonal"`.
        rank: columns of the low-rank part, for `"low_rank"` only.
        **options: the parameters of the likelihood, such as `scale`;
            `dimension`, `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    def __init__(self, covariance="full", rank=None, **options):
        super().__init__(
            MultivariateStudentT(covariance=covariance, rank=rank), **options
        )

    def get_config(self):
        config = super().get_config()
        del config["likelihood"]
        return {
            **config,
            "covariance": self.likelihood.covariance,
            "rank": self.likelihood.rank,
        }
