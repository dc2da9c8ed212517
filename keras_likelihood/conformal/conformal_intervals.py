"""Intervals with guaranteed coverage, for any regressor."""

import collections
import time
from typing import Any, Self

import numpy as np

from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.conformal.intervals import (
    ConformalDistribution,
    ConformalRegressor,
    checked_targets,
    interval_scores,
    interval_within,
    tempered,
)
from keras_likelihood.conformal.scores import (
    CalibrationScores,
    as_groups,
    refuse_weights,
)
from keras_likelihood.likelihoods import Likelihood, LocationScale, Normal
from keras_likelihood.likelihoods.checks import (
    check_argument,
    check_coverage,
    to_float64,
)
from keras_likelihood.reading.graphs import RegressorGraph, as_tensor
from keras_likelihood.reading.targets import (
    check_fitted,
    location_and_scale,
    widest,
)

_LEAST = 25
"""Smallest number of examples that is split to choose the trust."""
_SHARE = 5
"""One in this number of examples is used to choose the trust."""
_GRID = np.linspace(0, 1, 41)
_MIDDLE, _SPREAD = 0.5, 0.3
"""Prior of the trust, which matters if there are few examples."""


def choose_trust(
    distribution: Likelihood, y: Array, trust: Any, seed: int
) -> tuple[Array, Array, Array]:
    """Trust and unit of `tempered` for each output, and rows to calibrate."""
    kept, one, auto = np.ones(len(y), bool), np.array(1.0), trust == "auto"
    if trust == 1 or not isinstance(distribution, LocationScale):
        return one, one, kept
    scale = np.broadcast_to(to_float64(distribution.scale), y.shape)
    residuals = y - to_float64(distribution.prediction)
    if np.ptp(scale, axis=0).max() == 0:
        # The unit of the targets must not matter.
        size = np.median(np.abs(residuals), axis=0)
        return np.zeros(y.shape[1:]), np.where(size > 0, size, scale[0]), kept
    if auto and len(y) < _LEAST:
        return one, one, kept
    order = np.random.default_rng(seed).permutation(len(y))
    # One example is enough for the unit, but not for the trust.
    rows = order[: len(y) // _SHARE if auto else 1]
    kept[rows] = False
    shares = np.full(y.shape[1:], 1.0 if auto else trust)
    for place in np.ndindex(shares.shape) if auto else ():
        at = (rows, *place)
        shares[place] = fit_trust(residuals[at], scale[at])
    return shares, np.median(scale[rows], axis=0), kept


def fit_trust(residuals: Array, scale: Array) -> float:
    """The power of the scale that fits the residuals best.

    residual ~ Laplace(0, c scale^trust),    trust ~ Normal(0.5, 0.3)
    """
    size = np.maximum(np.abs(residuals), 1e-30)
    logs = np.log(scale) - np.mean(np.log(scale))
    nll = [
        len(size) * np.log(np.mean(size * np.exp(-trust * logs)))
        + trust * logs.sum()
        + 0.5 * ((trust - _MIDDLE) / _SPREAD) ** 2
        for trust in _GRID
    ]
    return float(_GRID[np.argmin(nll)])


class ConformalIntervals:
    """Calibrates predicted intervals to a requested coverage.

        score_i = |2 F_i(y_i) - 1|
        interval(coverage) = quantiles (1 -+ q) / 2,
            q = the ceil((n + 1) coverage)-th smallest score

    `F_i` is the predicted cdf. This is split conformal prediction, with the
    score of distributional conformal prediction (Chernozhukov et al. 2021).

    An interval then contains a new target with a probability of at least
    `coverage` and, without ties, at most `coverage + 1 / (n + 1)`: on average
    over calibration sets and examples, for each of several outputs separately,
    and with `groups` within every group. Calibration examples and new examples
    must be exchangeable. They are not if the data drift or are a time series,
    or if the calibration examples were used for training or were selected.

    Networks overfit their scales. So a predicted scale is first raised to a
    power, its `trust`, which is chosen on a fifth of the calibration examples.
    These do not count for the guarantee. Fewer than 25 examples are not split.

    Args:
        trust: `"auto"` (default), or a number in [0, 1]. With 1 the scales are
            used as predicted. With 0 all scales are equal.
        seed: the random seed of the split. Defaults to 0.

    Attributes set by fitting:
        scores_: a `CalibrationScores` with the sorted scores in `values`.
        trust_: the power of the scale, one for each output.
        report_: dict of `examples` (that count for the guarantee), `trust`
            (its mean) and `seconds`.
        model: a `ConformalRegressor` (after `fit`), which saves as `.keras`.

    ```python
    fitted = ConformalIntervals().fit("model.keras", x_val, y_val)
    fitted.model.save("conformal.keras")
    lower, upper = fitted.interval(x, 0.9)
    ```
    """

    def __init__(self, *, trust: Any = "auto", seed: int = 0):
        is_share = isinstance(trust, int | float) and 0 <= trust <= 1
        fits = is_share or trust == "auto"
        check_argument("trust", trust, fits, "'auto' or in [0, 1]")
        self.trust = trust
        self.seed = seed

    def fit(
        self,
        model: Any,
        x: Any,
        y: Any = None,
        *,
        groups: Any = None,
        batch_size: int = 32,
    ) -> Self:
        """Calibrates a Keras regressor; sets `model` and returns self.

        Args:
            model: a `keras.Model` or the path of a `.keras` file, with a
                prediction or `(prediction, parameter, ...)` as output. A
                model without a likelihood gets intervals of equal width.
            x, y, batch_size: as in `GlobalRescaling.fit`. The data must not
                have been used for training. Weights raise an error, because
                they have no meaning for the guarantee.
            groups: label of every example, `(n,)` whole numbers or strings,
                for a guarantee within every group. Defaults to no groups.
        """
        graph = RegressorGraph(model, x, batched=y is None)
        distribution, _, y, weight = graph.outputs(x, y, None, batch_size)
        refuse_weights(weight)
        self.fit_arrays(distribution, y, groups=groups)
        self.model = graph.extend(
            lambda: self._graph(graph), ConformalRegressor
        )
        return self

    def fit_arrays(
        self, prediction: Any, y: Any, *, scale: Any = None, groups: Any = None
    ) -> Self:
        """Calibrates intervals from a regressor's outputs; returns self.

        Args:
            prediction: a `Likelihood`, as from `predict_distribution`, or
                numbers `(n,)` or `(n, 1)`.
            y: targets, `(n, ...)`.
            scale: predicted scale of numbers, `> 0`, or `None` for intervals
                of equal width.
            groups: as in `fit`.
        """
        started = time.perf_counter()
        distribution = _distribution(prediction, scale)
        y = checked_targets(y, distribution)
        self.trust_, self._unit, kept = choose_trust(
            distribution, y, self.trust, self.seed
        )
        used = tempered(distribution, self.trust_, self._unit)
        scores = interval_scores(used, y)[kept]
        if groups is not None:
            groups = as_groups(groups, len(kept))[kept]
        self.scores_ = CalibrationScores.of(
            scores,
            groups,
            likelihood=distribution.name(),
            trust=self.trust_.tolist(),
            unit=self._unit.tolist(),
        )
        self.report_ = {
            "examples": int(kept.sum()),
            "trust": float(np.mean(self.trust_)),
            "seconds": time.perf_counter() - started,
        }
        # The model of an earlier fit is outdated.
        self.__dict__.pop("model", None)
        return self

    fit_distribution = fit_arrays

    def calibrate(
        self, prediction: Any, *, scale: Any = None, groups: Any = None
    ) -> ConformalDistribution:
        """Returns a distribution with a calibrated `interval(coverage)`.

        Arguments are as in `fit_arrays`.
        """
        check_fitted(self, "scores_", "calibrate")
        distribution = _distribution(prediction, scale)
        used = tempered(distribution, self.trust_, self._unit)
        return ConformalDistribution(used, self.scores_, groups)

    def interval(
        self, x: Any, coverage: float = 0.9, *, groups: Any = None
    ) -> tuple[Array, Array]:
        """Intervals of new inputs; see `ConformalRegressor.interval`."""
        # After `fit_arrays`, users call `calibrate(prediction).interval(...)`.
        check_fitted(self, "model", "interval")
        return self.model.interval(x, coverage, groups=groups)

    def _graph(self, graph: RegressorGraph) -> list[Tensor]:
        prediction = self.scores_.stored_beside(graph.prediction)
        return [prediction] + [
            as_tensor(prediction, value, f"constant_{name}")
            for name, value in graph.values.items()
        ]


def _distribution(prediction: Any, scale: Any) -> Likelihood:
    if isinstance(prediction, Likelihood):
        return prediction
    location, base = location_and_scale(prediction, scale)
    return Normal(widest(location), scale=widest(base))


class AdaptiveIntervals:
    """Conformal intervals that keep their coverage while the data drift.

        level' = level + rate * (coverage - covered)

    This is adaptive conformal inference (Gibbs and Candès 2021). Each new score
    replaces a calibration score. After t targets, the share of covered targets
    differs from `coverage` by at most about `1 / (rate t)`, however the data
    change. While the level is at least 1, intervals are infinite.

    Args:
        coverage: share of targets to cover, in (0, 1). Defaults to 0.9.
        rate: step of the level, `> 0`. A higher rate follows faster, and the
            widths vary more. Defaults to 0.02.

    Attributes:
        level_: the present level of each output, after the first interval.

    ```python
    fitted = kl.conformal.ConformalIntervals().fit(model, x_val, y_val)
    adaptive = kl.conformal.AdaptiveIntervals(coverage=0.9)
    for x, y in stream:
        predicted = fitted.model.predict_distribution(x)
        lower, upper = adaptive.interval(predicted)
        adaptive.update(y)  # as soon as the target is known
    ```
    """

    level_: Array

    def __init__(self, coverage: float = 0.9, *, rate: float = 0.02) -> None:
        check_coverage(coverage)
        check_argument("rate", rate, rate > 0, "> 0")
        self.coverage, self.rate = coverage, rate
        self._waiting: collections.deque[tuple[Likelihood, Array]]
        self._waiting = collections.deque()

    def interval(self, predicted: ConformalDistribution) -> tuple[Array, Array]:
        """Intervals `(lower, upper)` at the present level.

        `predicted` is the `predict_distribution` of a calibrated model, or
        `calibrate` of a `ConformalIntervals`, without groups.
        """
        if not hasattr(self, "level_"):
            labels, values = predicted.scores.labels, predicted.scores.values
            check_argument("groups", labels, labels is None, "None")
            self._scores = np.random.default_rng(0).permutation(values)
            self.level_ = np.full(values.shape[1:], self.coverage)
        n = len(self._scores)
        rank = np.ceil((n + 1) * self.level_ - 1e-9).astype(int)
        at = np.clip(rank, 1, n)[None] - 1
        bound = np.take_along_axis(np.sort(self._scores, axis=0), at, axis=0)
        bound = np.where(rank > n, np.inf, bound)
        lower, upper = interval_within(predicted.distribution, bound)
        self._waiting.append((predicted.distribution, bound))
        return lower, upper

    def update(self, y: Any) -> None:
        """Adapts the level to the targets of the oldest open interval."""
        waits = bool(self._waiting)
        check_argument("interval", "no call", waits, "called before `update`")
        distribution, bound = self._waiting.popleft()
        scores = interval_scores(distribution, y)
        missing = self.coverage - (scores <= bound)
        self.level_ = self.level_ + self.rate * missing.sum(axis=0)
        count = len(self._scores)
        self._scores = np.concatenate([self._scores, scores])[-count:]
