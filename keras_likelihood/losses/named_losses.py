"""One loss for each likelihood.

The arguments of a loss are its fields and those of its base classes.

Parameters are passed as in `LikelihoodLoss`: a number, `"global"`, a
`GlobalParameter`, a `DataParameter`, or `None` (default). With `None` the
head predicts the parameter, or the loss learns it if there is no head.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Shape
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.losses.likelihood_loss import (
    LikelihoodLoss,
    LocationScaleLoss,
    ParameterValue,
)

__all__ = [
    "BernoulliLoss",
    "BetaLoss",
    "ExponentialLoss",
    "GammaLoss",
    "HuberLoss",
    "LaplaceLoss",
    "LikelihoodLoss",
    "LocationScaleLoss",
    "LogNormalLoss",
    "LogisticLoss",
    "MultivariateNormalLoss",
    "MultivariateStudentTLoss",
    "NegativeBinomialLoss",
    "NoisyLabelsLoss",
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


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class NormalLoss(LocationScaleLoss):
    """Negative log-likelihood of the normal distribution.

        (y - prediction)^2 / (2 scale^2) + log(scale) + log(2 pi) / 2

    With `beta=1` and `ScaleHead(..., isolated=True)` the predictions are
    trained exactly as by squared error.

    ```python
    model.compile("adam", loss=kl.losses.NormalLoss())           # from a head
    model.compile("adam", loss=kl.losses.NormalLoss(scale=0.5))  # fixed
    ```

    Args:
        scale: standard deviation, given as in `LikelihoodLoss`.
        beta, balanced: as in `LocationScaleLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Normal

    scale: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class LaplaceLoss(LocationScaleLoss):
    """Negative log-likelihood of the Laplace distribution.

        |y - prediction| / scale + log(2 scale)

    With `beta=1` and `ScaleHead(..., isolated=True)` the predictions are
    trained exactly as by absolute error.

    Args:
        scale: mean absolute deviation, given as in `LikelihoodLoss`.
        beta, balanced: as in `LocationScaleLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Laplace

    scale: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class LogisticLoss(LocationScaleLoss):
    """Negative log-likelihood of the logistic distribution.

        z + 2 log(1 + exp(-z)) + log(scale),    z = (y - prediction) / scale

    It is Keras' `"log_cosh"` with a learned scale, up to a constant.

    Args:
        scale: the scale, given as in `LikelihoodLoss`.
        beta, balanced: as in `LocationScaleLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Logistic

    scale: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class StudentTLoss(LocationScaleLoss):
    """Negative log-likelihood of Student's t distribution.

        (df + 1) / 2 * log(1 + z^2 / df) + log(scale) + log Z(df)

    with `z = (y - prediction) / scale`.

    ```python
    model.compile("adam", loss=kl.losses.StudentTLoss(df=4.0, beta=0.5))
    ```

    Args:
        df: degrees of freedom, given as in `LikelihoodLoss`.
        scale: the scale, given in the same ways.
        beta, balanced: as in `LocationScaleLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.StudentT

    df: ParameterValue = None
    scale: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class HuberLoss(LocationScaleLoss):
    """Negative log-likelihood of Huber's density.

        rho(z) + log(scale) + log Z(threshold),  z = (y - prediction) / scale

    rho is quadratic up to the threshold and linear beyond it.

    Args:
        threshold: where the tails begin, in multiples of the scale, given as
            in `LikelihoodLoss`.
        scale: the scale, given in the same ways.
        beta, balanced: as in `LocationScaleLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Huber

    threshold: ParameterValue = None
    scale: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class RobustRhoLoss(LocationScaleLoss):
    """Negative log-likelihood of Barron's general robust distribution.

        rho(y - prediction, shape, scale) + log(scale) + log Z(shape)

    ```python
    model.compile("adam", loss=kl.losses.RobustRhoLoss())           # both
    model.compile("adam", loss=kl.losses.RobustRhoLoss(shape=1.0))  # scale
    ```

    Args:
        shape: 2 is normal, 1 a smooth absolute error and 0 Cauchy, given as
            in `LikelihoodLoss`. A learned shape stays in (0, 3).
        scale: the scale, given in the same ways.
        beta, balanced: as in `LocationScaleLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.RobustRho

    shape: ParameterValue = None
    scale: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class ExponentialLoss(LikelihoodLoss):
    """Negative log-likelihood of the exponential distribution.

        y / prediction + log(prediction)

    The prediction is the mean. Use `LikelihoodHead("exponential", units)` or an
    activation such as `"softplus"`. There are no parameters to learn, so any
    Keras model can be trained with this loss. Targets are `>= 0`.

    Args:
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Exponential


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class GammaLoss(LikelihoodLoss):
    """Negative log-likelihood of the gamma distribution.

        standard deviation = prediction / sqrt(shape)

    The prediction is the mean. Use `LikelihoodHead("gamma", units)` or an
    activation such as `"softplus"`. Targets are `> 0`.

    Args:
        shape: `(mean / standard deviation)^2`, given as in `LikelihoodLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Gamma

    shape: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class WeibullLoss(LikelihoodLoss):
    """Negative log-likelihood of the Weibull distribution.

        z^shape - shape log(z) + log(y) - log(shape),    z = y / scale

    The prediction is the mean. Use `LikelihoodHead("weibull", units)` or an
    activation such as `"softplus"`. Targets are `> 0`.

    Args:
        shape: the hazard decreases with time below 1 and increases above 1;
            given as in `LikelihoodLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Weibull

    shape: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class LogNormalLoss(LikelihoodLoss):
    """Negative log-likelihood of the log-normal distribution.

        log(y) is normal around log(prediction) - scale^2 / 2

    The prediction is the mean. Use `LikelihoodHead("log_normal", units)` or an
    activation such as `"softplus"`. Targets are `> 0`.

    Args:
        scale: standard deviation of `log(y)`, given as in `LikelihoodLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.LogNormal

    scale: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class BetaLoss(LikelihoodLoss):
    """Negative log-likelihood of the beta distribution.

        variance = prediction (1 - prediction) / (1 + concentration)

    The prediction is the mean. Use `LikelihoodHead("beta", units)` or the
    activation `"sigmoid"`. Targets lie strictly between 0 and 1.

    Args:
        concentration: the higher, the narrower; given as in `LikelihoodLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Beta

    concentration: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class VonMisesLoss(LikelihoodLoss):
    """Negative log-likelihood of the von Mises distribution of angles.

        concentration (1 - cos(y - prediction)) + log Z(concentration)

    Angles are in radians and taken modulo 2 pi.

    Args:
        concentration: the higher, the narrower; given as in `LikelihoodLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.VonMises

    concentration: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class PoissonLoss(LikelihoodLoss):
    """Negative log-likelihood of the Poisson distribution of counts.

        prediction - y log(prediction) + log(y!)

    The prediction is the mean. Use `LikelihoodHead("poisson", units)` or an
    activation such as `"softplus"`. There are no parameters to learn, so any
    Keras model can be trained with this loss.

    ```python
    outputs = keras.layers.Dense(1, activation="softplus")(features)
    model = keras.Model(inputs, outputs)
    model.compile("adam", loss=kl.losses.PoissonLoss())
    ```

    Args:
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Poisson


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class NegativeBinomialLoss(LikelihoodLoss):
    """Negative log-likelihood of the negative binomial distribution.

        variance = prediction + dispersion * prediction^2

    The prediction is the mean. Use `LikelihoodHead("negative_binomial", units)`
    or an activation such as `"softplus"`.

    Args:
        dispersion: (variance - mean) / mean^2, given as in `LikelihoodLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.NegativeBinomial

    dispersion: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class ZeroInflatedLoss(LikelihoodLoss):
    """Negative log-likelihood of counts with additional zeros.

        P(0) = zero_probability + (1 - zero_probability) P_count(0)

    The prediction is the mean of all outcomes and must be `>= 0`.

    ```python
    counts = kl.likelihoods.ZeroInflated("negative_binomial")
    outputs = kl.layers.LikelihoodHead(counts, units=1)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.ZeroInflatedLoss("negative_binomial"))
    ```

    Args:
        likelihood: a `CountLikelihood` or its name. Defaults to
            `"poisson"`.
        zero_probability: fraction of additional zeros, in (0, 1), given as in
            `LikelihoodLoss`.
        dispersion: of the `"negative_binomial"`, given in the same ways.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood: Any = "poisson"
    zero_probability: ParameterValue = None
    dispersion: ParameterValue = None

    def _choose(self, likelihood: Any) -> Any:
        return likelihoods.ZeroInflated(self.likelihood)

    def get_config(self) -> dict[str, Any]:
        inner = self.likelihood.likelihood.name()
        return {**super().get_config(), "likelihood": inner}


@dataclasses.dataclass(eq=False, repr=False)
class _LossOfClasses(LikelihoodLoss):
    _: dataclasses.KW_ONLY
    ignore_class: int | None = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class SoftmaxLoss(_LossOfClasses):
    """Negative log-likelihood of classes: cross-entropy with a temperature.

        log sum_c exp(logits_c / temperature) - logits_y / temperature

    Targets are class numbers, or one-hot or soft labels, depending on their
    shape. The model must output logits, not probabilities.

    ```python
    model.compile("adam", loss=kl.losses.SoftmaxLoss(), metrics=["accuracy"])
    ```

    Args:
        temperature: divides the logits; given as in `LikelihoodLoss`.
        dimension, ignore_class, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Softmax

    temperature: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class BernoulliLoss(_LossOfClasses):
    """Negative log-likelihood of binary targets, with a temperature.

        log(1 + exp(l)) - y l,    l = logits / temperature

    Args:
        temperature: divides the logits; given as in `LikelihoodLoss`.
        dimension, ignore_class, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.Bernoulli

    temperature: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class NoisyLabelsLoss(_LossOfClasses):
    """Classification loss for partly mislabeled training data.

    Every training example has a memory of its past predictions, and the network
    is rewarded for agreeing with it, see `likelihoods.NoisyLabels` and Liu et
    al. (2020). The network then memorizes few wrong labels. `kl.audit` finds
    and counts the wrong labels.

    ```python
    memory = kl.DataParameter(len(x))
    model.compile("adam", loss=kl.losses.NoisyLabelsLoss(memory))
    model.fit(x, kl.indexed(y))
    report = kl.audit(model, x, y)
    ```

    Validation and test data have no memory. Their loss is the cross-entropy.

    Args:
        memory: a `DataParameter` with one row per training example. For
            sequences of labels it needs `dimension="element"`.
        temperature: divides the logits, as in `SoftmaxLoss`. Defaults to 1.
        dimension, ignore_class, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    likelihood = likelihoods.NoisyLabels

    memory: ParameterValue
    temperature: ParameterValue = 1.0

    def __post_init__(self, dtype: Any) -> None:
        super().__post_init__(dtype)
        allowed = "a `DataParameter` with one row for each training example"
        fits = "memory" in self.data_parameters
        check_argument("memory", self.memory, fits, allowed)

    def build(self, prediction_shape: Shape, count: int = 0) -> None:
        memory = self.data_parameters["memory"]
        if len(prediction_shape) > 2 and memory.dimension != "element":
            raise ValueError(
                "With several labels per example, each label needs its own "
                'memory: DataParameter(n, dimension="element"). Received: '
                f"dimension={memory.dimension!r} for predictions of shape "
                f"{tuple(prediction_shape)}"
            )
        super().build(prediction_shape, count)


class _FamilyLoss(LikelihoodLoss):
    """A loss with the arguments of its family of likelihoods."""

    family: Any = None

    def _choose(self, likelihood: Any) -> Any:
        names = inspect.signature(self.family.define).parameters
        chosen = self.family(**{name: getattr(self, name) for name in names})
        for name, value in chosen.arguments:
            setattr(self, name, value)
        return chosen

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["likelihood"]
        return config


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class OrdinalLoss(_FamilyLoss, _LossOfClasses):
    """Negative log-likelihood of ordered classes with a latent score.

        P(y <= k) = 1 / (1 + exp(prediction - cut_k))

    The model predicts one score per target, such as with `Dense(1)`. The loss
    learns the cut points between the classes.

    ```python
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(features))
    model.compile("adam", loss=kl.losses.OrdinalLoss(classes=5))
    p = model.predict_distribution(x).class_probabilities()
    ```

    Args:
        classes: number of classes, at least 3.
        gaps: distances between the cut points, given as in `LikelihoodLoss`:
            a number, or a tuple of `classes - 2` numbers.
        dimension, ignore_class, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    family = likelihoods.Ordinal

    classes: int
    gaps: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class QuantilesLoss(_FamilyLoss):
    """Mean asymmetric Laplace NLL of quantiles at several levels.

        mean over levels t of
        pinball_t(y - q_t) / scale + log(scale) - log(t (1 - t))

    `QuantilesHead` predicts quantiles that do not cross. The quantiles of a
    plain `Dense(len(levels))` layer may cross, and `predict_distribution`
    sorts them.

    ```python
    levels = (0.05, 0.5, 0.95)
    outputs = kl.layers.QuantilesHead(levels)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.QuantilesLoss(levels))
    lower, upper = model.predict_distribution(x).interval(0.9)
    ```

    Args:
        levels: increasing, each in (0, 1).
        scale: the scale, given as in `LikelihoodLoss`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    family = likelihoods.Quantiles

    levels: tuple[float, ...]
    scale: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
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
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    family = likelihoods.MultivariateNormal

    covariance: str = "full"
    rank: int | None = None
    scale: ParameterValue = None
    lower: ParameterValue = None
    factor: ParameterValue = None


@serializable
@dataclasses.dataclass(eq=False, repr=False)
class MultivariateStudentTLoss(_FamilyLoss):
    """Negative log-likelihood of vectors under `MultivariateStudentT`.

    Args:
        covariance: `"full"` (default), `"low_rank"` or `"diagonal"`.
        rank: number of columns of the low-rank part, only for `"low_rank"`.
        df: degrees of freedom, given as in `LikelihoodLoss`.
        scale, lower, factor: parameters of the covariance, given as in
            `LikelihoodLoss`. Only `"full"` has `lower`, and only `"low_rank"`
            has `factor`.
        dimension, reduction, name, dtype: as in `LikelihoodLoss`.
    """

    family = likelihoods.MultivariateStudentT

    covariance: str = "full"
    rank: int | None = None
    df: ParameterValue = None
    scale: ParameterValue = None
    lower: ParameterValue = None
    factor: ParameterValue = None
