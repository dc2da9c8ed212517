"""Conformal intervals for a stream whose distribution may change."""

import collections
from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.conformal.intervals import (
    ConformalDistribution,
    interval_scores,
    interval_within,
)
from keras_likelihood.likelihoods import Likelihood
from keras_likelihood.likelihoods.checks import check_argument, check_coverage


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
