"""Losses of vectors, of quantiles and of angles."""

from typing import Any, ClassVar

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import (
    MultivariateNormal,
    MultivariateStudentT,
    Quantiles,
    VonMises,
)
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


@serializable
class MultivariateNormalLoss(MultivariateLoss):
    """Negative log-likelihood of vectors under MultivariateNormal.

    ```python
    loss = kl.losses.MultivariateNormalLoss(covariance="full")
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

    family = MultivariateNormal


@serializable
class MultivariateStudentTLoss(MultivariateLoss):
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

    family = MultivariateStudentT


@serializable
class QuantilesLoss(LikelihoodLoss):
    """Mean asymmetric Laplace NLL of quantiles at several levels.

        mean over levels t of
        pinball_t(y - q_t) / scale + log(scale) - log(t (1 - t))

    `QuantilesHead` predicts quantiles that do not cross. A stock layer
    `Dense(len(levels))` works too. Its quantiles may cross, and
    `predict_distribution` sorts them.

    ```python
    levels = (0.05, 0.5, 0.95)
    outputs = kl.layers.QuantilesHead(levels)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.QuantilesLoss(levels))
    lower, upper = model.predict_distribution(x).interval(0.9)
    ```

    Args:
        levels: increasing, each in (0, 1).
        scale: a number, `"global"`, a `GlobalParameter`, or `None` (default).
            With `None` the head predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    def __init__(self, levels, scale=None, **options):
        super().__init__(Quantiles(levels), scale=scale, **options)

    def get_config(self):
        config = {**super().get_config(), "levels": self.likelihood.levels}
        del config["likelihood"]
        return config


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
