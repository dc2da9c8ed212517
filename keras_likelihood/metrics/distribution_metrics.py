"""Metrics of predicted distributions and of class probabilities."""

from typing import Any

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable, snake_case
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods import Bernoulli, Likelihood, Softmax
from keras_likelihood.likelihoods.checks import check_argument, check_coverage
from keras_likelihood.likelihoods.output import distribution_of, split_output
from keras_likelihood.losses.batch import Batch


class DistributionMetric(keras.metrics.Metric):
    """A metric of predicted distributions and their targets.

    In the `compile` of a `LikelihoodModel` it gets the predicted distribution
    of the loss, with all its parameters. Otherwise it accepts one of

    - a `Likelihood`, such as the result of `predict_distribution`;
    - `(prediction, parameter, ...)`, in the likelihood's order;
    - only a prediction, if the missing parameters are passed as numbers.

    A missing parameter is an error. Masked outcomes are ignored. A subclass
    defines `update_from(distribution, y_true, weights)`, and lists arguments of
    its own in `own_arguments`.

    Args:
        likelihood: a `Likelihood` or its name. Defaults to `None`: the
            likelihood of the model's loss, otherwise `default_likelihood`.
        name, dtype: as in `keras.metrics.Metric`.
        **parameters: fixed values of parameters that the output lacks.
    """

    default_likelihood = "normal"
    from_logits: bool | None = None
    """Whether an output contains logits, for metrics that accept both."""
    own_arguments: tuple[str, ...] = ()

    def __init__(
        self,
        likelihood: Any = None,
        *,
        name: Any = None,
        dtype: Any = None,
        **parameters: Any,
    ) -> None:
        super().__init__(name=name or snake_case(type(self)), dtype=dtype)
        self._named = likelihood and likelihoods.get(likelihood)
        self.likelihood = likelihoods.get(likelihood or self.default_likelihood)
        for parameter in parameters:
            self.likelihood.parameter(parameter)
        self.parameters = parameters

    def bind(self, loss: Any) -> None:
        """Checks that this metric fits the likelihood of a loss."""
        name, own = loss.likelihood.name(), self._named
        fits = own in (None, loss.likelihood) and not self.parameters
        received = own and own.name(), self.parameters
        allowed = f"that of the loss, {name}. Omit `likelihood` and parameters"
        check_argument("likelihood", received, fits, allowed)
        is_free = self.from_logits is not False
        allowed = "omitted, because the loss determines it"
        check_argument("from_logits", self.from_logits, is_free, allowed)

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Any = None
    ) -> None:
        """Adds a batch of targets, and outputs or a `Likelihood`."""

        def with_units(v: Any) -> Tensor:
            v = ops.convert_to_tensor(v)
            return v[..., None] if len(v.shape) == 1 else v

        if isinstance(y_pred, Likelihood):
            distribution = y_pred.map_values(with_units)
            y_pred = distribution.prediction
        else:
            y_pred = keras.tree.map_structure(with_units, y_pred)
            distribution = self.read(y_pred)
        kind, dtype = type(distribution), self.dtype
        batch = Batch.of(kind, y_true, y_pred, sample_weight, dtype=dtype)
        self.add(distribution, batch)

    def add(self, distribution: Likelihood, batch: Batch) -> None:
        """Adds a batch, given its distribution."""
        y_true = batch.target_where(distribution)
        weights = ops.cast(batch.weight, self.dtype)
        self.update_from(distribution, y_true, weights)

    def read(self, y_pred: Tensor) -> Likelihood:
        """The distribution for an output, without a loss."""
        return distribution_of(
            self.likelihood, y_pred, known=self.parameters, dtype=self.dtype
        )

    def update_from(self, distribution: Any, y_true: Any, weights: Any) -> None:
        """Adds targets with weights, which broadcast with the outcomes."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "likelihood": self._named and self._named.name(),
            **{name: getattr(self, name) for name in self.own_arguments},
            **self.parameters,
        }


class MeanOverOutcomes(DistributionMetric):
    """The weighted mean of `values` over outcomes.

    A subclass defines `values(distribution, y_true)`.
    """

    def __init__(self, likelihood: Any = None, **options: Any) -> None:
        super().__init__(likelihood, **options)
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def values(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        """Values that broadcast with the outcomes."""
        raise NotImplementedError

    def update_from(self, distribution: Any, y_true: Any, weights: Any) -> None:
        values = ops.cast(self.values(distribution, y_true), self.dtype)
        rank = len(distribution.prediction.shape) - distribution.event_rank
        shape = ops.shape(distribution.prediction)[:rank]
        # Predicted quantiles are of a single unit.
        values = values[..., 0] if len(values.shape) > len(shape) else values
        values = ops.broadcast_to(values, shape)
        weights = ops.broadcast_to(weights, shape)
        # Targets of weight 0 may be NaN.
        values = ops.where(weights > 0, values, ops.zeros_like(values))
        self.total.assign_add(ops.sum(weights * values))
        self.count.assign_add(ops.sum(weights))

    def result(self) -> Tensor:
        return ops.divide_no_nan(self.total, self.count)


@serializable
class NegativeLogLikelihood(MeanOverOutcomes):
    """Mean negative log-likelihood, including constants.

    Args:
        likelihood: as in `DistributionMetric`, by default `"softmax"`.
        from_logits: whether a single prediction of softmax or Bernoulli
            contains logits (default) or probabilities.
        **options: options of `DistributionMetric`.
    """

    default_likelihood = "softmax"
    own_arguments = ("from_logits",)

    def __init__(
        self, likelihood: Any = None, *, from_logits: bool = True, **named: Any
    ) -> None:
        super().__init__(likelihood, **named)
        self.from_logits = from_logits
        fits = from_logits or self.likelihood in (Softmax, Bernoulli)
        allowed = "softmax or bernoulli with `from_logits=False`"
        check_argument("likelihood", self.likelihood.name(), fits, allowed)

    def read(self, y_pred: Tensor) -> Likelihood:
        if not self.from_logits:
            y_pred = as_logits(ops.cast(y_pred, self.dtype), self.likelihood)
        return super().read(y_pred)

    def values(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        return distribution.nll(y_true)


@serializable
class CalibrationError(DistributionMetric):
    """Calibration error (CAL) of the intervals of a regressor.

        CAL = sum_j (p_j - fraction of targets with F(y) <= p_j)^2

    over the levels p_j = j / levels, j = 1 .. levels - 1. F is the cdf of the
    likelihood. If outcomes are whole numbers, F jumps at the target, which is
    then weighted by the part of the jump below p_j (Czado et al. 2009). So is a
    censored target, from F(lower) to F(upper) (Haider et al. 2020).

    ```python
    cal = kl.metrics.CalibrationError("normal")
    cal.update_state(y, (prediction, scale))
    ```

    Args:
        levels: number of equal steps in p. Defaults to 20.
        likelihood: as in `DistributionMetric`.
        **options: as in `DistributionMetric`.
    """

    own_arguments = ("levels",)

    def __init__(
        self, likelihood: Any = None, *, levels: int = 20, **options: Any
    ) -> None:
        super().__init__(likelihood, **options)
        check_argument("levels", levels, levels >= 2, ">= 2")
        self.levels = levels
        self.below = self.add_variable((levels - 1,), "zeros", name="below")
        self.count = self.add_variable((), "zeros", name="count")

    def update_from(self, distribution: Any, y_true: Any, weights: Any) -> None:
        cdf, below = cdf_and_below(distribution, y_true)
        if len(weights.shape) < len(cdf.shape):
            weights = weights[..., None]
        weights = ops.broadcast_to(weights, ops.shape(cdf))
        cdf, below, weights = (
            ops.reshape(ops.cast(x, self.dtype), (-1, 1))
            for x in (cdf, below, weights)
        )
        jump = ops.maximum(cdf - below, 1e-30)
        part = ops.clip((self._levels() - below) / jump, 0.0, 1.0)
        inside = ops.where(cdf <= self._levels(), 1.0, part)
        self.below.assign_add(ops.sum(weights * inside, axis=0))
        self.count.assign_add(ops.sum(weights))

    def _levels(self) -> Any:
        return ops.arange(1, self.levels, dtype=self.dtype) / self.levels

    def result(self) -> Tensor:
        share = ops.divide_no_nan(self.below, self.count)
        gap = ops.sum(ops.square(self._levels() - share))
        return ops.where(self.count > 0, gap, ops.zeros_like(gap))


@serializable
class IntervalCoverage(MeanOverOutcomes):
    """Fraction of targets inside the central interval of a given coverage.

    The interval includes both of its ends. A censored target is weighted by the
    part of the probability between its bounds that lies inside.

    Args:
        coverage: nominal coverage of the interval, in (0, 1). Defaults to 0.9.
        likelihood: as in `DistributionMetric`.
        **options: as in `DistributionMetric`.
    """

    own_arguments = ("coverage",)

    def __init__(
        self, coverage: float = 0.9, *, likelihood: Any = None, **options: Any
    ) -> None:
        super().__init__(likelihood, **options)
        check_coverage(coverage)
        self.coverage = coverage

    def values(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        cdf, below = cdf_and_below(distribution, y_true)
        tail = (1 - self.coverage) / 2
        # `P(Y < y) < 1 - tail` means that y is at most the upper quantile.
        within = ops.logical_or(below < 1 - tail, cdf <= 1 - tail)
        inside = ops.cast(ops.logical_and(cdf >= tail, within), cdf.dtype)
        inside = ops.where(ops.isnan(cdf), cdf, inside)
        if not distribution.takes_bounds:
            return inside
        jump = cdf - below
        ends = (ops.clip(p, tail, 1 - tail) for p in (cdf, below))
        covered = ops.subtract(*ends) / ops.where(jump > 0, jump, 1.0)
        y_true = distribution.match_target(y_true, distribution.prediction)
        exact = y_true[..., 0] == y_true[..., 1]
        return ops.where(ops.logical_or(exact, jump <= 0), inside, covered)


@serializable
class ContinuousRankedProbabilityScore(MeanOverOutcomes):
    """Continuous ranked probability score, in the unit of the targets."""

    def values(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        return distribution.crps(y_true)


@serializable
class Sharpness(MeanOverOutcomes):
    """Mean predicted scale. Smaller values are sharper.

    The likelihood must have a `scale`.
    """

    def bind(self, loss: Any) -> None:
        super().bind(loss)
        fits = loss.likelihood.parameter("scale").size is None
        allowed = "a likelihood with one scale per outcome"
        check_argument("loss", loss.likelihood.name(), fits, allowed)

    def values(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        return distribution.scale


class ClassMetric(DistributionMetric):
    """A metric of class probabilities.

    In the `compile` of a `LikelihoodModel` the loss determines the meaning of
    the output. Otherwise the metric accepts a `Likelihood`, `(logits,
    temperature)`, or logits or probabilities. One column is a binary outcome.

    Args:
        from_logits: whether a single output contains logits. `None` (default)
            and `False` mean probabilities.
        name, dtype: as in `keras.metrics.Metric`.
    """

    own_arguments: tuple[str, ...] = ("from_logits",)

    def __init__(
        self, *, from_logits: bool | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.from_logits = from_logits

    def bind(self, loss: Any) -> None:
        super().bind(loss)
        is_class = hasattr(loss.likelihood, "class_probabilities")
        allowed = f"a likelihood of classes for {self.name}, such as softmax"
        check_argument("loss", loss.likelihood.name(), is_class, allowed)

    def read(self, y_pred: Tensor) -> Likelihood:
        prediction, parameters = split_output(y_pred)
        prediction = ops.cast(prediction, self.dtype)
        likelihood = Bernoulli if prediction.shape[-1] == 1 else Softmax
        if not parameters and not self.from_logits:
            prediction = as_logits(prediction, likelihood)
        output = (prediction, *parameters)
        return distribution_of(likelihood, output, dtype=self.dtype)

    def outcomes(self, distribution: Likelihood, y_true: Tensor) -> Any:
        """Class numbers `(batch, ...)` and probabilities `(..., classes)`."""
        p = ops.cast(distribution.class_probabilities(), self.dtype)
        if distribution.event_rank and len(y_true.shape) == len(p.shape):
            # One-hot labels
            y_true = ops.argmax(y_true, axis=-1)
        return ops.cast(ops.reshape(y_true, ops.shape(p)[:-1]), "int32"), p

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["likelihood"]
        return config


@serializable
class BrierScore(ClassMetric, MeanOverOutcomes):
    """Mean squared distance of the probabilities from the one-hot outcome.

        Brier = mean_i sum_c (p_ic - [y_i = c])^2

    Args:
        **options: options of `ClassMetric`.
    """

    def values(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        y_true, p = self.outcomes(distribution, y_true)
        outcome = ops.one_hot(y_true, p.shape[-1], dtype=p.dtype)
        return ops.sum(ops.square(p - outcome), axis=-1)


@serializable
class ExpectedCalibrationError(ClassMetric):
    """Mean gap between confidence and accuracy, in equal-width bins.

        ECE = sum_b n_b / n |accuracy_b - confidence_b|

    Args:
        bins: number of bins of [0, 1]. Defaults to 15.
        **options: options of `ClassMetric`.
    """

    own_arguments = ("from_logits", "bins")

    def __init__(self, *, bins: int = 15, **options: Any) -> None:
        super().__init__(**options)
        check_argument("bins", bins, bins >= 1, ">= 1")
        self.bins = bins
        self.gaps = self.add_variable((bins,), "zeros", name="gaps")
        self.size = self.add_variable((), "zeros", name="size")

    def update_from(self, distribution: Any, y_true: Any, weights: Any) -> None:
        y_true, p = self.outcomes(distribution, y_true)
        confidence = ops.max(p, axis=-1)
        top = ops.cast(ops.argmax(p, axis=-1), "int32")
        gap = ops.cast(top == y_true, self.dtype) - confidence
        weights = weights * ops.ones_like(confidence)
        index = ops.cast(ops.floor(confidence * self.bins), "int32")
        index = ops.reshape(ops.clip(index, 0, self.bins - 1), (-1,))
        gap = ops.reshape(weights * gap, (-1,))
        self.gaps.assign_add(ops.segment_sum(gap, index, self.bins))
        self.size.assign_add(ops.sum(weights))

    def result(self) -> Tensor:
        total = ops.sum(ops.abs(self.gaps))
        return ops.divide_no_nan(total, self.size)


def cdf_and_below(distribution: Likelihood, y: Tensor) -> tuple[Any, Any]:
    """`cdf(y)` and `cdf_below(y)`, which only differ if the cdf jumps."""
    cdf = distribution.cdf(y)
    jumps = distribution.is_discrete or distribution.takes_bounds
    return cdf, distribution.cdf_below(y) if jumps else cdf


def as_logits(p: Tensor, likelihood: Any) -> Any:
    """Logits of probabilities, finite even for 0 and 1."""
    tiny = keras.config.epsilon()
    logs = ops.log(ops.maximum(p, tiny))
    if issubclass(likelihood, Softmax):
        return logs
    return logs - ops.log(ops.maximum(1 - p, tiny))
