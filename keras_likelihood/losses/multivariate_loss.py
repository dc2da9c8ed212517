"""Losses of vectors, whose likelihood has a covariance of some shape."""

from typing import Any, ClassVar

from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


class MultivariateLoss(LikelihoodLoss):
    """Negative log-likelihood of vectors; a subclass names the `family`.

    Args:
        covariance: `"full"` (default), `"low_rank"` or `"diagonal"`.
        rank: columns of the low-rank part, for `"low_rank"` only.
        **options: the parameters of the likelihood, such as `scale`;
            `dimension`, `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    family: ClassVar[Any] = None
    """A likelihood that is made from `covariance` and `rank`."""

    def __init__(self, covariance="full", rank=None, **options):
        super().__init__(
            self.family(covariance=covariance, rank=rank), **options
        )

    def get_config(self):
        config = super().get_config()
        del config["likelihood"]
        return {
            **config,
            "covariance": self.likelihood.covariance,
            "rank": self.likelihood.rank,
        }
