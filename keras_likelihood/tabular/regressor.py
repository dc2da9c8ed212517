"""Predicts a number from the columns of a table."""

import dataclasses
import functools
from typing import Any

import numpy as np
from keras import ops
from sklearn.base import RegressorMixin
from sklearn.utils import check_array

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.conformal import ConformalIntervals
from keras_likelihood.conformal.prediction import LEVEL, interval_within
from keras_likelihood.likelihoods import Likelihood
from keras_likelihood.likelihoods.checks import check_argument, to_float64
from keras_likelihood.likelihoods.mixture import EnsembleDistribution
from keras_likelihood.tables.columns import as_numbers, refuse_rounding
from keras_likelihood.tabular import targets, training
from keras_likelihood.tabular.table_estimator import TableEstimator

_FARTHEST = 1e15
"""Largest target, and the inverse of the smallest spread of the targets."""


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Regressor(RegressorMixin, TableEstimator):
    """Predicts the distribution of a number from the columns of a table.

    ```python
    model = kl.tabular.Regressor().fit(X, y)
    model.predict(X_new)
    lower, upper = model.interval(X_new, 0.9)
    print(model.summary())
    ```

    Several networks are trained in parallel. Their first layer,
    `TableFeatures`, takes numbers, dates, categories and missing values. Some
    rows are held out from each network. Training stops when their likelihood no
    longer improves, and each network keeps its best round.
    The out-of-fold predictions calibrate the intervals and give the scores of
    `summary()`.

    The prediction is the mixture of the members. Their disagreement is the
    epistemic uncertainty: `predict_distribution(X).epistemic`.

    Intervals are calibrated by cross-conformal prediction (Vovk 2015). Their
    coverage is close to the requested one if new rows are like the training
    rows. It is not guaranteed, because the calibration rows also stop the
    training, and because their scores are extrapolated from few members to all.
    For a guarantee, calibrate `model` on new rows with
    `kl.conformal.ConformalIntervals`.

    Args:
        likelihood: a `Likelihood` of one number, or its name. By default it is
            chosen from the targets: Student's t, or the negative binomial for
            counts, the log-normal for positive numbers over several orders of
            magnitude, and the beta distribution for shares. `summary()` names
            it.
        members: number of networks, `>= 2`. Defaults to 8.
        epochs: maximum number of epochs. The default depends on the number of
            rows.
        random_state: seed, `RandomState` or `None`. Defaults to `None`.
        verbose: whether to show the progress. Defaults to False.

    Attributes:
        model_: the Keras model, also `model`.
        columns_: how each column is read.
        likelihood_: the likelihood of the targets.
        scores_: scores on held-out rows: `NLL`, `RMSE` and `in 90 %
            interval`, the share of targets inside the intervals before these
            are calibrated.
        doubtful_rows_: the 1 % of the rows whose targets fit worst.
    """

    likelihood: str | type[Likelihood] | None = None

    def _checked_targets(self, y, order):
        bad = y[np.isnan(as_numbers(y))] if y.dtype.kind in "OU" else y
        if y.dtype.kind in "mM" or bad.size and isinstance(bad[0], str):
            raise ValueError(
                f"The targets must be numbers. Received: {str(bad[0])[:40]!r}"
            )
        y = check_array(y, ensure_2d=False, dtype="float64", input_name="y")
        if y.min() == y.max():
            raise ValueError(
                "The targets must differ: there is nothing to predict. "
                f"Received: {y[0]:g} in every row"
            )
        size, spread = np.abs(y).max(), np.ptp(y / 2) * 2
        if size > _FARTHEST or spread < 1 / _FARTHEST:
            raise ValueError(
                "The targets must be of a size whose square fits float32. "
                f"Divide them by {size:.0e} and multiply the predictions by "
                f"it. Received: targets up to {size:.2g}, which differ by "
                f"{spread:.2g}"
            )
        refuse_rounding(y, "The targets")
        self.likelihood_ = targets.checked_likelihood(self.likelihood, y)
        return y

    @staticmethod
    def _evaluate(distribution: Any, y: Tensor) -> dict:
        y = y[:, None]
        found = {"mean": distribution.mean(), "nll": distribution.nll(y)}
        found["at_most"] = found["below"] = distribution.cdf(y)
        if distribution.is_discrete:
            found["below"] = distribution.cdf_below(y)
        return found | distribution.values()

    def _judge(self, held_out: list[dict], y: Array) -> dict:
        names = "nll", "at_most", "mean"
        nll, cdf, mean = (held_out[0][n][:, 0].astype(float) for n in names)
        self.held_out_ |= {"nll": nll, "cdf": cdf, "prediction": mean}
        return {
            "NLL": float(nll.mean()),
            "RMSE": float(np.mean((mean - y) ** 2) ** 0.5),
            "in 90 % interval": float(np.mean(np.abs(2 * cdf - 1) <= 0.9)),
        }

    @property
    def doubtful_rows_(self) -> np.ndarray:
        nll = self.held_out_["nll"]
        worst = np.argsort(-nll, kind="stable")[: max(1, len(nll) // 100)]
        return self.held_out_["row"][worst]

    def _calibrated(self, model: Any, held_out: list[dict], y: Array) -> Any:
        scores = [
            _scores(self.likelihood_, found, y[:, None], self.members_)
            for found in held_out
        ]
        conformal = calibrated_intervals(scores, self.members_)
        return conformal.extend(model).model

    def predict(self, X, statistic: str = "mean") -> np.ndarray:  # noqa: N803
        """The mean of each row's distribution, `(n,)`.

        Args:
            X: rows, as in `fit`.
            statistic: `"mean"` (default) or `"median"`.
        """
        is_known = statistic in ("mean", "median")
        check_argument("statistic", statistic, is_known, "'mean' or 'median'")
        found = self.predict_distribution(X)
        found = found.mean() if statistic == "mean" else found.quantile(0.5)
        return found[:, 0]

    def predict_distribution(self, X):  # noqa: N803
        """The distribution of each row's target, before calibration.

        Its `interval` is the interval of the mixture. `Regressor.interval` is
        calibrated.

        Returns:
            An `EnsembleDistribution` of `(n, 1)` numbers with `nll`, `cdf`,
            `quantile`, `sample`, `mean`, `variance`, `aleatoric` and
            `epistemic`.
        """
        return self._with_intervals(X).distribution

    def _with_intervals(self, table):
        x = self.encode(table)
        return self.model_.predict_distribution(x, batch_size=training.BATCH)

    def interval(self, X, coverage: float = 0.9):  # noqa: N803
        """Calibrated intervals.

        Args:
            X: rows, as in `fit`.
            coverage: requested share of targets inside the intervals, in
                (0, 1). Defaults to 0.9.

        Returns:
            `(lower, upper)`, each `(n,)`.
        """
        found = self._with_intervals(X)
        central: Any = _Central(
            type(found.distribution), found.distribution.values()
        )
        bound = found.scores.threshold(coverage)
        lower, upper = interval_within(central, bound)
        return lower[:, 0], upper[:, 0]


class _Central:
    """Central intervals of rows, from one compiled program.

    Equations for quantiles take seconds to compile, so all calls share them.
    """

    def __init__(self, kind: Any, values: dict[str, Any]) -> None:
        self._run = _compiled_ends(kind)
        self._values = values

    def interval(self, coverage: float) -> tuple:
        """`(lower, upper)`, each `(n, 1)`."""
        log_p = np.float32(np.log((1 - coverage) / 2))
        ends = []
        rows = len(self._values["prediction"])
        for start in range(0, rows, _AT_ONCE):
            batch = {
                name: np.resize(
                    v[start : start + _AT_ONCE], (_AT_ONCE, v.shape[1])
                )
                for name, v in self._values.items()
            }
            ends.append(ops.convert_to_numpy(self._run(batch, log_p)))
        lower, upper = np.concatenate(ends, axis=1)[:, :rows]
        return lower, upper


_AT_ONCE = 256


@functools.lru_cache(maxsize=8)
def _compiled_ends(kind: type[Likelihood]) -> Any:
    """Maps parameters and the log of the tails to both ends."""

    def run(values: dict, log_p: Tensor) -> Tensor:
        twice = {n: ops.concatenate([v, v]) for n, v in values.items()}
        prediction = twice.pop("prediction")
        upper = np.arange(2 * _AT_ONCE)[:, None] >= _AT_ONCE
        found = kind(prediction, **twice).tail_quantile(
            log_p + ops.zeros_like(prediction), ops.convert_to_tensor(upper)
        )
        return ops.reshape(found, (2, _AT_ONCE, 1))

    return compiled(run)


def _scores(likelihood: Any, found: dict, y: Array, members: int) -> Array:
    """The scores of `interval_scores`, with intervals for outliers only."""
    below, at_most = (found[n].astype(float) for n in ("below", "at_most"))
    scores = np.maximum(np.maximum(1 - 2 * at_most, 2 * below - 1), 0)
    rows = np.flatnonzero(scores > LEVEL)
    if len(rows):
        names = [
            "prediction",
            "member",
            *(p.name for p in likelihood.parameters),
        ]
        # A mixture of all members needs no other program.
        times = members // 2 if members % 2 == 0 else 1
        values = {
            name: np.repeat(found[name][rows], times if at else 1, axis=1)
            for at, name in enumerate(names)
        }
        kind: Any = EnsembleDistribution(likelihood, components=2 * times)
        lower, upper = map(to_float64, _Central(kind, values).interval(LEVEL))
        outside = np.maximum(lower - y[rows], y[rows] - upper)
        spread = np.where(upper > lower, upper - lower, 1.0)
        scores[rows] = LEVEL + np.maximum(outside, 0) / spread
    return scores[:, 0]


def calibrated_intervals(
    scores: list[Array], members: int
) -> ConformalIntervals:
    """Cross-conformal intervals (Vovk 2015) for the mixture of all members.

    Few members did not train on a row, so their mixture is less accurate than
    the ensemble. The quantiles of its scores, the first in `scores`, are
    extrapolated to all members from those of the single members, the others:
    `quantile(count) = limit + slope / count`.
    """
    mixture, *singles = scores
    if len(singles) > 1:
        one = np.mean(np.sort([_tail(s) for s in singles], axis=1), axis=0)
        several = np.sort(_tail(mixture))
        slope = (one - several) / (1 - 1 / len(singles))
        limit = one - slope
        found = limit + slope / members
        mixture = _score(np.maximum.accumulate(np.maximum(found, 0.0)))
    # The trust of a scale is meaningless for a mixture.
    return ConformalIntervals(trust=1.0).fit_scores(mixture[:, None])


def _tail(score):
    """Scores on a scale that is linear in the target's distance."""
    return -np.log1p(-np.minimum(score, LEVEL)) + np.maximum(score - LEVEL, 0.0)


def _score(tail):
    """The inverse of `_tail`."""
    most = -np.log1p(-LEVEL)
    return -np.expm1(-np.minimum(tail, most)) + np.maximum(tail - most, 0.0)
