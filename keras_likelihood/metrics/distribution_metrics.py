"""Metrics of predicted distributions and of class probabilities."""

from typing import Any

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable, snake_case
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods import Bernoulli, Likelihood, Softmax
from keras_likelihood.likelihoods.censored import is_exact
from keras_likelihood.likelihoods.checks import check_argument, check_coverage
from keras_likelihood.likelihoods.output import distribution_of
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
        distribution = self.read(y_pred)
        if len(distribution.prediction.shape) == 1:
            distribution = distribution.map_values(
                lambda v: v[..., None] if len(v.shape) == 1 else v
            )
        if isinstance(y_pred, Likelihood):
            y_pred = y_pred.prediction
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
        if isinstance(y_pred, Likelihood):
            return y_pred.map_values(ops.convert_to_tensor)
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
        if not self.from_logits and not isinstance(y_pred, Likelihood):
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
        likelihood: as in `DistributionMetric`.
        levels: number of equal steps in p. Defaults to 20.
        **options: options of `DistributionMetric`.
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
        cdf = ops.cast(distribution.cdf(y_true), self.dtype)
        if len(weights.shape) < len(cdf.shape):
            weights = weights[..., None]
        weights = ops.broadcast_to(weights, ops.shape(cdf))
        cdf, weights = ops.reshape(cdf, (-1, 1)), ops.reshape(weights, (-1, 1))
        inside = ops.cast(cdf <= self._levels(), self.dtype)
        if distribution.is_discrete or distribution.takes_bounds:
            below = ops.cast(distribution.cdf_below(y_true), self.dtype)
            below = ops.reshape(below, (-1, 1))
            jump = ops.maximum(cdf - below, 1e-30)
            part = ops.clip((self._levels() - below) / jump, 0.0, 1.0)
            inside = ops.where(cdf <= self._levels(), inside, part)
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
        **options: options of `DistributionMetric`.
    """

    own_arguments = ("coverage",)

    def __init__(
        self, coverage: float = 0.9, *, likelihood: Any = None, **options: Any
    ) -> None:
        super().__init__(likelihood, **options)
        check_coverage(coverage)
        self.coverage = coverage

    def values(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        cdf = distribution.cdf(y_true)
        tail = (1 - self.coverage) / 2
        below, within = cdf, cdf <= 1 - tail
        if distribution.is_discrete or distribution.takes_bounds:
            below = distribution.cdf_below(y_true)
            # `P(Y < y) < 1 - tail` means that y is at most the upper quantile.
            within = below < 1 - tail
        inside = ops.cast(ops.logical_and(cdf >= tail, within), cdf.dtype)
        inside = ops.where(ops.isnan(cdf), cdf, inside)
        if not distribution.takes_bounds:
            return inside
        jump = cdf - below
        ends = (ops.clip(p, tail, 1 - tail) for p in (cdf, below))
        covered = ops.subtract(*ends) / ops.where(jump > 0, jump, 1.0)
        exact = is_exact(y_true, distribution.prediction)
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


def as_logits(p: Tensor, likelihood: Any) -> Any:
    """Logits of probabilities, finite even for 0 and 1."""
    tiny = keras.config.epsilon()
    logs = ops.log(ops.maximum(p, tiny))
    if issubclass(likelihood, Softmax):
        return logs
    return logs - ops.log(ops.maximum(1 - p, tiny))
