"""Metrics of predicted distributions and of class probabilities."""

import math

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable, snake_case
from keras_likelihood.likelihoods import Bernoulli, Likelihood, Normal, Softmax
from keras_likelihood.likelihoods.censored import is_exact
from keras_likelihood.likelihoods.checks import check_argument, check_coverage
from keras_likelihood.likelihoods.output import distribution_of
from keras_likelihood.losses.batch import Batch


class DistributionMetric(keras.metrics.Metric):
    """A metric that judges a predicted distribution by its targets.

    In the `compile` of a `LikelihoodModel` it gets the distribution that the
    loss makes from the model's output, with all its parameters. Elsewhere it
    takes one of

    - a `Likelihood`, such as the result of `predict_distribution`;
    - `(prediction, parameter, ...)`, in the likelihood's order;
    - a prediction alone, if the missing parameters are given as numbers.

    A missing parameter is an error. Masked outcomes do not count.

    A subclass defines `update_from(distribution, y_true, weights)`.

    Args:
        likelihood: a `Likelihood` or its name; `None` (default) for that of
            the model's loss, and elsewhere `default_likelihood`.
        name: defaults to that of the class in snake case.
        dtype: as in `keras.metrics.Metric`.
        **parameters: fixed values of parameters that the output lacks.
    """

    default_likelihood = "normal"
    from_logits: bool | None = None
    """Whether an output holds logits, for a metric that takes both."""

    def __init__(self, likelihood=None, *, name=None, dtype=None, **parameters):
        super().__init__(name=name or snake_case(type(self)), dtype=dtype)
        self._named = likelihood and likelihoods.get(likelihood)
        self.likelihood = likelihoods.get(likelihood or self.default_likelihood)
        for given in parameters:
            self.likelihood.parameter(given)
        self.parameters = parameters

    def bind(self, loss):
        """Checks that this metric can judge what a loss predicts."""
        if self._named not in (None, loss.likelihood) or self.parameters:
            named = self._named and self._named.name()
            raise ValueError(
                f"The metric {self.name} uses the distribution of the "
                f"model's loss, which is {loss.likelihood.name()} with its "
                "own parameters. Leave out `likelihood` and the parameters. "
                f"Received: likelihood={named!r}, parameters={self.parameters}"
            )
        if self.from_logits is False:
            raise ValueError(
                "The loss says what the model gives. Leave out `from_logits` "
                f"of {self.name}. Received: from_logits=False"
            )

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Counts a batch of targets and outputs, or a `Likelihood` of them."""
        distribution = self.read(y_pred)
        if isinstance(y_pred, Likelihood):
            y_pred = y_pred.prediction
        self.judge(distribution, Batch(y_pred, y_true, sample_weight))

    def judge(self, distribution: Likelihood, batch: Batch):
        """Counts a batch whose distribution is known."""
        weights = batch.weights(distribution.event_rank)
        y_true = batch.counted_target(distribution, weights)
        self.update_from(distribution, y_true, ops.cast(weights, self.dtype))

    def read(self, y_pred) -> Likelihood:
        """The distribution that is made from an output without a loss."""
        if isinstance(y_pred, Likelihood):
            return y_pred.map_values(ops.convert_to_tensor)
        return distribution_of(
            self.likelihood, y_pred, known=self.parameters, dtype=self.dtype
        )

    def update_from(self, distribution: Likelihood, y_true, weights):
        """Counts a batch of targets of a distribution.

        Targets have the rank of the prediction or of classes. The weights
        broadcast with the outcomes.
        """
        raise NotImplementedError

    def get_config(self):
        return {
            **super().get_config(),
            "likelihood": self._named and self._named.name(),
            **self.parameters,
        }


class MeanOverOutcomes(DistributionMetric):
    """The weighted mean over outcomes of what a subclass computes.

    A subclass defines `values(distribution, y_true)`.
    """

    def __init__(self, likelihood=None, **options):
        super().__init__(likelihood, **options)
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def values(self, distribution: Likelihood, y_true):
        """One value per outcome, or a tensor that broadcasts with them."""
        raise NotImplementedError

    def update_from(self, distribution, y_true, weights):
        values = ops.cast(self.values(distribution, y_true), self.dtype)
        shape = ops.shape(distribution.prediction)
        shape = shape[:-1] if distribution.event_rank else shape
        values = ops.broadcast_to(values, shape)
        weights = ops.broadcast_to(weights, shape)
        # A target of weight 0 may be anything, even NaN.
        values = ops.where(weights > 0, values, ops.zeros_like(values))
        self.total.assign_add(ops.sum(weights * values))
        self.count.assign_add(ops.sum(weights))

    def result(self):
        return ops.divide_no_nan(self.total, self.count)


@serializable
class NegativeLogLikelihood(MeanOverOutcomes):
    """Mean negative log-likelihood, constants included.

    ```python
    nll = kl.metrics.NegativeLogLikelihood("normal")
    nll.update_state(y, (prediction, scale))
    ```

    Args:
        likelihood: as in `DistributionMetric`. It is `"softmax"` if no loss of
            a model says which.
        from_logits: whether a single prediction of softmax and Bernoulli holds
            logits (default) or probabilities. A recalibrated model gives
            probabilities.
        **options: those of `DistributionMetric`.
    """

    default_likelihood = "softmax"

    def __init__(self, likelihood=None, *, from_logits: bool = True, **options):
        super().__init__(likelihood, **options)
        self.from_logits = from_logits
        fits = from_logits or self.likelihood in (Softmax, Bernoulli)
        allowed = "softmax or bernoulli with `from_logits=False`"
        check_argument("likelihood", self.likelihood.name(), fits, allowed)

    def read(self, y_pred) -> Likelihood:
        if not self.from_logits and not isinstance(y_pred, Likelihood):
            y_pred = as_logits(ops.cast(y_pred, self.dtype), self.likelihood)
        return super().read(y_pred)

    def values(self, distribution, y_true):
        return distribution.nll(y_true)

    def get_config(self):
        return {**super().get_config(), "from_logits": self.from_logits}


@serializable
class CalibrationError(DistributionMetric):
    """Calibration error (CAL) of the intervals of a regressor.

        CAL = sum_j (p_j - share of targets with F(y) <= p_j)^2

    over the levels p_j = j / levels, j = 1 .. levels - 1. F is the cdf of the
    likelihood. If outcomes are whole numbers, F jumps at the target, which
    then counts by the part of the jump below p_j (Czado et al. 2009). A target
    that is known by bounds counts in the same way, from F(lower) to F(upper)
    (Haider et al. 2020).

    ```python
    cal = kl.metrics.CalibrationError("normal")
    cal.update_state(y, (prediction, scale))
    ```

    Args:
        likelihood: as in `DistributionMetric`.
        levels: number of equal steps of p. Defaults to 20.
        **options: those of `DistributionMetric`.
    """

    def __init__(self, likelihood=None, *, levels: int = 20, **options):
        super().__init__(likelihood, **options)
        check_argument("levels", levels, levels >= 2, ">= 2")
        self.levels = levels
        self.below = self.add_variable((levels - 1,), "zeros", name="below")
        self.count = self.add_variable((), "zeros", name="count")

    def update_from(self, distribution, y_true, weights):
        cdf = ops.cast(distribution.cdf(y_true), self.dtype)
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

    def _levels(self):
        return ops.arange(1, self.levels, dtype=self.dtype) / self.levels

    def result(self):
        share = ops.divide_no_nan(self.below, self.count)
        gap = ops.sum(ops.square(self._levels() - share))
        return ops.where(self.count > 0, gap, ops.zeros_like(gap))

    def get_config(self):
        return {**super().get_config(), "levels": self.levels}


@serializable
class IntervalCoverage(MeanOverOutcomes):
    """Share of targets inside the central interval of a given coverage.

    The interval includes both of its ends, which matters where outcomes are
    whole numbers. A target that is known by bounds counts by the part of the
    probability between the bounds that lies inside.

    Args:
        coverage: the probability that the interval should contain the target,
            in (0, 1). Defaults to 0.9.
        likelihood: as in `DistributionMetric`.
        **options: those of `DistributionMetric`.
    """

    def __init__(self, coverage: float = 0.9, *, likelihood=None, **options):
        super().__init__(likelihood, **options)
        check_coverage(coverage)
        self.coverage = coverage

    def values(self, distribution, y_true):
        cdf = distribution.cdf(y_true)
        tail = (1 - self.coverage) / 2
        below, within = cdf, cdf <= 1 - tail
        if distribution.is_discrete or distribution.takes_bounds:
            below = distribution.cdf_below(y_true)
            # The target is at most the upper quantile if the probability
            # below the target is less than that of the quantile.
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

    def get_config(self):
        return {**super().get_config(), "coverage": self.coverage}


@serializable
class NormalCRPS(MeanOverOutcomes):
    """Continuous ranked probability score of normal predictions.

        CRPS = s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)),
        z = (y - prediction) / s

    Predictions: those of a `Normal`.
    """

    def __init__(self, likelihood="normal", **options):
        super().__init__(likelihood, **options)
        fits = self.likelihood is Normal
        check_argument("likelihood", self.likelihood.name(), fits, "'normal'")

    def values(self, distribution, y_true):
        z = distribution.standardize(y_true)
        density = ops.exp(-distribution.standard_nll(z))
        score = z * (2 * distribution.standard_cdf(z) - 1) + 2 * density
        return distribution.scale * (score - 1 / math.sqrt(math.pi))


@serializable
class Sharpness(MeanOverOutcomes):
    """Mean predicted scale. A small value is sharp.

    Predictions: those of a likelihood with a `scale`.
    """

    def bind(self, loss):
        super().bind(loss)
        if loss.likelihood.parameter("scale").size is not None:
            raise ValueError(
                "Sharpness is for a likelihood with one scale per outcome. "
                f"Received: {loss.likelihood.name()}"
            )

    def values(self, distribution, y_true):
        return distribution.scale


def as_logits(p, likelihood):
    """Logits of probabilities. They are finite even for 0 and 1."""
    tiny = keras.config.epsilon()
    logs = ops.log(ops.maximum(p, tiny))
    if issubclass(likelihood, Softmax):
        return logs
    return logs - ops.log(ops.maximum(1 - p, tiny))
