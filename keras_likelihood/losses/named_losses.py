"""One loss for each likelihood, whose docstring has the formula.

The arguments of a loss are its fields and those of its base classes. Parameters
of the likelihood are given as in `LikelihoodLoss`.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, ClassVar

from keras_likelihood import likelihoods
from keras_likelihood.losses.likelihood_loss import (
    LikelihoodLoss,
    LocationScaleLoss,
    ParameterValue,
    registered_loss,
)

__all__ = [
    "BernoulliLoss",
    "BetaLoss",
    "ExponentialLoss",
    "GammaLoss",
    "HuberLoss",
    "LaplaceLoss",
    "LogNormalLoss",
    "LogisticLoss",
    "MultivariateNormalLoss",
    "MultivariateStudentTLoss",
    "NegativeBinomialLoss",
    "NormalLoss",
    "OrdinalLoss",
    "PoissonLoss",
    "QuantilesLoss",
    "RobustRhoLoss",
    "SoftmaxLoss",
    "StudentTLoss",
    "VonMisesLoss",
    "WeibullLoss",
    "ZeroInflatedLoss",
]


@registered_loss
class NormalLoss(LocationScaleLoss):
    """Negative log-likelihood of `likelihoods.Normal`.

    With `beta=1` and `ScaleHead(..., isolated=True)` the predictions train
    exactly as under squared error.
    """

    likelihood = likelihoods.Normal
    scale: ParameterValue = None


@registered_loss
class LaplaceLoss(LocationScaleLoss):
    """Negative log-likelihood of `likelihoods.Laplace`.

    With `beta=1` and `ScaleHead(..., isolated=True)` the predictions are
    trained exactly as under absolute error.
    """

    likelihood = likelihoods.Laplace
    scale: ParameterValue = None


@registered_loss
class LogisticLoss(LocationScaleLoss):
    """Negative log-likelihood of `likelihoods.Logistic`.

    It is Keras' `"log_cosh"` with a learned scale, up to a constant.
    """

    likelihood = likelihoods.Logistic
    scale: ParameterValue = None


@registered_loss
class StudentTLoss(LocationScaleLoss):
    """Negative log-likelihood of `likelihoods.StudentT`.

    Args:
        df: degrees of freedom.
    """

    likelihood = likelihoods.StudentT
    df: ParameterValue = None
    scale: ParameterValue = None


@registered_loss
class HuberLoss(LocationScaleLoss):
    """Negative log-likelihood of `likelihoods.Huber`.

    Args:
        threshold: where the tails begin, in multiples of the scale.
    """

    likelihood = likelihoods.Huber
    threshold: ParameterValue = None
    scale: ParameterValue = None


@registered_loss
class RobustRhoLoss(LocationScaleLoss):
    """Negative log-likelihood of `likelihoods.RobustRho`, Barron's density.

    Args:
        shape: 2 is normal, 1 a smooth absolute error and 0 Cauchy. A learned
            shape stays in (0, 3).
    """

    likelihood = likelihoods.RobustRho
    shape: ParameterValue = None
    scale: ParameterValue = None


@registered_loss
class ExponentialLoss(LikelihoodLoss):
    """Negative log-likelihood of `likelihoods.Exponential`, for `y >= 0`.

    The prediction is the mean. Use `LikelihoodHead("exponential", units)`, or
    an activation such as `"softplus"`.
    """

    likelihood = likelihoods.Exponential


@registered_loss
class GammaLoss(LikelihoodLoss):
    """Negative log-likelihood of `likelihoods.Gamma`, for `y > 0`.

    The prediction is the mean; see `ExponentialLoss`.

    Args:
        shape: `(mean / standard deviation)^2`.
    """

    likelihood = likelihoods.Gamma
    shape: ParameterValue = None


@registered_loss
class WeibullLoss(LikelihoodLoss):
    """Negative log-likelihood of `likelihoods.Weibull`, for `y > 0`.

    The prediction is the mean; see `ExponentialLoss`.

    Args:
        shape: the hazard decreases with time below 1 and increases above 1.
    """

    likelihood = likelihoods.Weibull
    shape: ParameterValue = None


@registered_loss
class LogNormalLoss(LikelihoodLoss):
    """Negative log-likelihood of `likelihoods.LogNormal`, for `y > 0`.

    The prediction is the mean; see `ExponentialLoss`.

    Args:
        scale: standard deviation of `log(y)`.
    """

    likelihood = likelihoods.LogNormal
    scale: ParameterValue = None


@registered_loss
class BetaLoss(LikelihoodLoss):
    """Negative log-likelihood of `likelihoods.Beta`, for `0 < y < 1`.

    The prediction is the mean. Use `LikelihoodHead("beta", units)` or the
    activation `"sigmoid"`.

    Args:
        concentration: the higher, the narrower.
    """

    likelihood = likelihoods.Beta
    concentration: ParameterValue = None


@registered_loss
class VonMisesLoss(LikelihoodLoss):
    """Negative log-likelihood of `likelihoods.VonMises`, for angles.

    Angles are in radians and taken modulo 2 pi.

    Args:
        concentration: the higher, the narrower.
    """

    likelihood = likelihoods.VonMises
    concentration: ParameterValue = None


@registered_loss
class PoissonLoss(LikelihoodLoss):
    """Negative log-likelihood of `likelihoods.Poisson`, for counts.

    The prediction is the mean; see `ExponentialLoss`.
    """

    likelihood = likelihoods.Poisson


@registered_loss
class NegativeBinomialLoss(LikelihoodLoss):
    """Negative log-likelihood of `likelihoods.NegativeBinomial`.

    The prediction is the mean; see `ExponentialLoss`.

    Args:
        dispersion: `(variance - mean) / mean^2`.
    """

    likelihood = likelihoods.NegativeBinomial
    dispersion: ParameterValue = None


@dataclasses.dataclass(eq=False, repr=False)
class _FamilyLoss(LikelihoodLoss):
    """A loss with the arguments of its family of likelihoods."""

    family: ClassVar[Any] = None

    def _choose(self, likelihood: Any) -> Any:
        names = inspect.signature(self.family.define).parameters
        return self.family(**{name: getattr(self, name) for name in names})

    def get_config(self) -> dict[str, Any]:
        arguments = dict(self.likelihood.arguments)
        if "likelihood" in arguments:
            arguments["likelihood"] = arguments["likelihood"].name()
        return {**super().get_config(), **arguments}


@registered_loss
class ZeroInflatedLoss(_FamilyLoss):
    """Negative log-likelihood of `likelihoods.ZeroInflated` counts.

    The prediction is the mean of all outcomes and must be `>= 0`.

    Args:
        likelihood: a `CountLikelihood` or its name. Defaults to `"poisson"`.
        zero_probability: fraction of additional zeros, in (0, 1).
        dispersion: of the `"negative_binomial"`.
    """

    family = likelihoods.ZeroInflated
    likelihood: Any = "poisson"
    zero_probability: ParameterValue = None
    dispersion: ParameterValue = None


@registered_loss
class SoftmaxLoss(LikelihoodLoss):
    """Negative log-likelihood of `likelihoods.Softmax`, for classes.

    It is the cross-entropy with a temperature. Targets are class numbers, or
    one-hot or soft labels, depending on their shape. The model must output
    logits, not probabilities.

    Args:
        temperature: divides the logits; given as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Softmax
    temperature: ParameterValue = None


@registered_loss
class BernoulliLoss(LikelihoodLoss):
    """Negative log-likelihood of `likelihoods.Bernoulli`: binary targets.

    Args:
        temperature: divides the logits; given as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Bernoulli
    temperature: ParameterValue = None


@registered_loss
class OrdinalLoss(_FamilyLoss):
    """Negative log-likelihood of `likelihoods.Ordinal`, for ordered classes.

    The model predicts one score per target, such as with `Dense(1)`. The loss
    learns the cut points between the classes.

    Args:
        classes: number of classes, at least 3.
        gaps: distances between the cut points: a number, or a tuple of
            `classes - 2` numbers, or as in `LikelihoodLoss`.
    """

    family = likelihoods.Ordinal
    classes: int
    gaps: ParameterValue = None


@registered_loss
class QuantilesLoss(_FamilyLoss):
    """Mean asymmetric Laplace NLL of quantiles at several levels.

        mean over levels t of
        pinball_t(y - q_t) / scale + log(scale) - log(t (1 - t))

    `QuantilesHead` predicts quantiles that do not cross. The quantiles of a
    plain `Dense(len(levels))` layer may cross, and `predict_distribution`
    sorts them.

    Args:
        levels: increasing, each in (0, 1).
        scale: the scale, given as in `LikelihoodLoss`.
    """

    family = likelihoods.Quantiles
    levels: tuple[float, ...]
    scale: ParameterValue = None


@registered_loss
class MultivariateNormalLoss(_FamilyLoss):
    """Negative log-likelihood of vectors under `MultivariateNormal`.

    ```python
    loss = kl.losses.MultivariateNormalLoss(covariance="full")
    outputs = kl.layers.LikelihoodHead(loss.likelihood, 4)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=loss)
    ```

    Args:
        covariance: `"full"` (default), `"low_rank"` or `"diagonal"`.
        rank: number of columns of the low-rank part, only for `"low_rank"`.
        scale, lower, factor: parameters of the covariance, given as in
            `LikelihoodLoss`. Only `"full"` has `lower`, and only `"low_rank"`
            has `factor`.
    """

    family: ClassVar[Any] = likelihoods.MultivariateNormal
    covariance: str = "full"
    rank: int | None = None
    scale: ParameterValue = None
    lower: ParameterValue = None
    factor: ParameterValue = None


@registered_loss
class MultivariateStudentTLoss(MultivariateNormalLoss):
    """Negative log-likelihood of vectors under `MultivariateStudentT`.

    Args:
        df: degrees of freedom.
    """

    family = likelihoods.MultivariateStudentT
    df: ParameterValue = None
