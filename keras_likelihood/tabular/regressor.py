"""Predicts a number from the columns of a table."""

import dataclasses
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import RegressorMixin
from sklearn.utils import check_array

from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.conformal import ConformalDistribution, ConformalRegressor
from keras_likelihood.conformal.intervals import LEVEL
from keras_likelihood.conformal.scores import CalibrationScores
from keras_likelihood.ensembles.ensemble_distribution import (
    EnsembleDistribution,
)
from keras_likelihood.likelihoods import Likelihood, StudentT
from keras_likelihood.likelihoods.checks import check_argument, to_float64
from keras_likelihood.tables.columns import as_numbers, refuse_rounding
from keras_likelihood.tabular import targets
from keras_likelihood.tabular.batches import BATCH
from keras_likelihood.tabular.fitted_process import (
    MOST_ROWS,
    best_weight,
    fit_process,
    with_process,
)
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
    longer improves, and each network keeps its best round. Up to 3,000 rows of
    real numbers, a Gaussian process joins the networks, with the weight of the
    highest out-of-fold likelihood; on smooth targets it is far better.
    The out-of-fold predictions calibrate the intervals and give the scores of
    `summary()`.

    The prediction is the mixture of the members. Their disagreement is the
    epistemic uncertainty: `predict_distribution(X).distribution.epistemic`.

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

    def _checked_targets(self, y: Array, order: Any) -> Array:
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
    def _evaluate(distribution: Any, y: Tensor) -> dict[str, Any]:
        y = y[:, None]
        found = {"mean": distribution.mean(), "nll": distribution.nll(y)}
        found["at_most"] = found["below"] = distribution.cdf(y)
        if distribution.is_discrete:
            found["below"] = distribution.cdf_below(y)
        return found | distribution.values()

    def _add_process(self, held_out: Any, y: Array, *data: Any) -> Any:
        features, inputs, weight, fold, random = data
        if self.likelihood_ is not StudentT or len(y) > MOST_ROWS:
            return held_out, None, None
        process, outputs = fit_process(
            features, inputs, y, weight, fold, random
        )
        mean, df, scale = outputs.T[:, :, None]
        law = stats.t(df, mean, scale)
        nll, cdf = -law.logpdf(y[:, None]), law.cdf(y[:, None])
        last = best_weight(held_out[0]["nll"][:, 0], nll[:, 0], weight)
        if not last:
            return held_out, None, None
        own = {"mean": mean, "nll": nll, "at_most": cdf, "below": cdf}
        values = {"member": mean, "df": df, "scale": scale}
        pooled = [with_process(v, own, values, last) for v in held_out]
        return pooled, process, last

    def _judge(self, held_out: Any, y: Array) -> dict[str, float]:
        names = "nll", "at_most", "mean"
        nll, cdf, mean = (held_out[0][n][:, 0].astype(float) for n in names)
        self.held_out_ |= {"nll": nll, "cdf": cdf, "prediction": mean}
        return {
            "NLL": float(nll.mean()),
            "RMSE": float(np.mean((mean - y) ** 2) ** 0.5),
            "in 90 % interval": float(np.mean(np.abs(2 * cdf - 1) <= 0.9)),
        }

    @property
    def doubtful_rows_(self) -> Array:
        nll = self.held_out_["nll"]
        worst = np.argsort(-nll, kind="stable")[: max(1, len(nll) // 100)]
        return self.held_out_["row"][worst]

    def _calibrated(
        self, inputs: Any, outputs: Any, held_out: Any, y: Array, last: Any
    ) -> Any:
        scores = [
            _scores(self.likelihood_, found, y[:, None], self.members_, last)
            for found in held_out
        ]
        kind = _mixture(self.likelihood_, self.members_, last)
        combined = combined_scores(scores, self.members_)
        # The trust of a scale is meaningless for a mixture.
        settings = {"likelihood": kind.name(), "trust": 1.0, "unit": 1.0}
        calibration = CalibrationScores.of(combined[:, None], **settings)
        pooled, *members = outputs
        pooled = calibration.stored_beside(pooled)
        return ConformalRegressor(inputs, [pooled, *members])

    def predict(self, X: Any, statistic: str = "mean") -> Array:  # noqa: N803
        """The mean of each row's distribution, `(n,)`.

        Args:
            X: rows, as in `fit`.
            statistic: `"mean"` (default) or `"median"`.
        """
        is_known = statistic in ("mean", "median")
        check_argument("statistic", statistic, is_known, "'mean' or 'median'")
        found = self.predict_distribution(X).distribution
        found = found.mean() if statistic == "mean" else found.quantile(0.5)
        return found[:, 0]

    def predict_distribution(
        self,
        X: Any,  # noqa: N803
    ) -> ConformalDistribution:
        """The predicted distribution of each row's target.

        Returns:
            A `ConformalDistribution` of `(n, 1)` numbers, with calibrated
            `interval` and `quantile`. Its `distribution` is the mixture of the
            networks before calibration, an `EnsembleDistribution` with `nll`,
            `cdf`, `sample`, `mean`, `variance`, `aleatoric` and `epistemic`.
        """
        x = self.encode(X)
        return self.model_.predict_distribution(x, batch_size=BATCH)

    def interval(
        self,
        X: Any,  # noqa: N803
        coverage: float = 0.9,
    ) -> tuple[Array, Array]:
        """Calibrated intervals: those of `predict_distribution`.

        Args:
            X: rows, as in `fit`.
            coverage: requested share of targets inside the intervals, in
                (0, 1). Defaults to 0.9.

        Returns:
            `(lower, upper)`, each `(n,)`.
        """
        lower, upper = self.predict_distribution(X).interval(coverage)
        return lower[:, 0], upper[:, 0]


def _mixture(likelihood: Any, networks: int, last: float | None) -> Any:
    components = networks + (last is not None)
    return EnsembleDistribution(likelihood, components=components, last=last)


def _scores(
    likelihood: Any, found: Any, y: Array, networks: int, last: float | None
) -> Array:
    """The scores of `interval_scores`, with intervals for outliers only."""
    below, at_most = (found[n].astype(float) for n in ("below", "at_most"))
    scores = np.maximum(np.maximum(1 - 2 * at_most, 2 * below - 1), 0)
    rows = np.flatnonzero(scores > LEVEL)
    if len(rows):
        # The mixture of all members repeats the two: it needs no other program.
        times = networks // 2 if networks % 2 == 0 else 1
        repeats = [times] * 2 + [1] * (last is not None)
        names = "member", *(p.name for p in likelihood.parameters)
        values = {n: np.repeat(found[n][rows], repeats, axis=1) for n in names}
        distribution = _mixture(likelihood, 2 * times, last)(
            found["prediction"][rows], **values
        )
        lower, upper = map(to_float64, distribution.interval(LEVEL))
        outside = np.maximum(lower - y[rows], y[rows] - upper)
        spread = np.where(upper > lower, upper - lower, 1.0)
        scores[rows] = LEVEL + np.maximum(outside, 0) / spread
    return scores[:, 0]


def combined_scores(scores: list[Array], members: int) -> Array:
    """Cross-conformal scores (Vovk 2015) for the mixture of all members.

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
    return mixture


def _tail(score: Array) -> Array:
    """Scores on a scale that is linear in the target's distance."""
    return -np.log1p(-np.minimum(score, LEVEL)) + np.maximum(score - LEVEL, 0.0)


def _score(tail: Array) -> Array:
    """The inverse of `_tail`."""
    most = -np.log1p(-LEVEL)
    return -np.expm1(-np.minimum(tail, most)) + np.maximum(tail - most, 0.0)
