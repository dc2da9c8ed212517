"""Predicts a number from the columns of a table."""

import dataclasses

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array

from keras_likelihood.comparison.model_scores import crps
from keras_likelihood.conformal import ConformalIntervals
from keras_likelihood.conformal.prediction import LEVEL, interval_scores
from keras_likelihood.conformal.scores import CalibrationScores
from keras_likelihood.likelihoods import Likelihood
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.tables.columns import as_numbers
from keras_likelihood.tabular import targets, training
from keras_likelihood.tabular.table_estimator import TableEstimator


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
    rows are held out from each network, which keeps its best epoch on them.
    The out-of-fold predictions calibrate the intervals and give the scores of
    `summary()`.

    The prediction is the mixture of the members. Their disagreement is the
    epistemic uncertainty: `predict_distribution(X).epistemic`.

    Intervals are calibrated by cross-conformal prediction (Vovk 2015). Their
    coverage is close to the requested one if new rows are like the training
    rows. It is not guaranteed, because the calibration rows also choose the
    epochs, and because their scores are extrapolated from few members to all.
    For a guarantee, calibrate `model` on new rows with
    `kl.conformal.ConformalIntervals`.

    Args:
        likelihood: a `Likelihood` of one number, or its name. By default it is
            chosen from the targets: Student's t, or the negative binomial for
            counts, the log-normal for positive numbers over several orders of
            magnitude, and the beta distribution for shares. `summary()` names
            it.
        members: number of networks, `>= 2`. Defaults to 8.
        epochs: number of epochs. The default depends on the number of rows.
        random_state: seed, `RandomState` or `None`. Defaults to `None`.
        verbose: whether to show the progress. Defaults to False.

    Attributes:
        model_: the Keras model, also `model`.
        columns_: how each column is read.
        likelihood_: the likelihood of the targets.
        scores_: scores on held-out rows: `NLL`, `CRPS`, `RMSE` and `in 90 %
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
        self.likelihood_ = targets.checked_likelihood(self.likelihood, y)
        return y

    def _judge(self, held, y):
        y = y[:, None]
        values = held.nll(y), held.cdf(y), held.mean()
        nll, cdf, prediction = (found[:, 0] for found in values)
        self.held_out_ |= {"nll": nll, "cdf": cdf, "prediction": prediction}
        error = np.mean((prediction - y[:, 0]) ** 2)
        return {
            "NLL": float(nll.mean()),
            "CRPS": float(crps(held, y).mean()),
            "RMSE": float(error**0.5),
            "in 90 % interval": float(np.mean(np.abs(2 * cdf - 1) <= 0.9)),
        }

    @property
    def doubtful_rows_(self) -> np.ndarray:
        nll = self.held_out_["nll"]
        worst = np.argsort(-nll, kind="stable")[: max(1, len(nll) // 100)]
        return self.held_out_["row"][worst]

    def _calibrated(self, model, held, by_member, y):
        conformal = calibrated_intervals(
            list(by_member), held, y[:, None], model.loss.members
        )
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
        """The distribution of each row's target.

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
        lower, upper = self._with_intervals(X).interval(coverage)
        return lower[:, 0], upper[:, 0]


def calibrated_intervals(
    by_member, held, y, members: int
) -> ConformalIntervals:
    """Cross-conformal intervals (Vovk 2015) for the mixture of all members.

    Few members did not train on a row, so their mixture `held` is less accurate
    than the ensemble. The quantiles of the scores are extrapolated from one
    and from several members to all: `quantile(count) = limit + slope / count`.
    """
    # The trust of a scale is meaningless for a mixture.
    conformal = ConformalIntervals(trust=1.0).fit_distribution(held, y)
    count = len(by_member)
    if count > 1:
        one = [_tail(interval_scores(member, y)) for member in by_member]
        one = np.mean(np.sort(one, axis=1), axis=0)
        several = _tail(conformal.scores_.values)
        slope = (one - several) / (1 - 1 / count)
        found = several - slope * (1 / count - 1 / members)
        scores = _score(np.maximum.accumulate(np.maximum(found, 0.0)))
        conformal.scores_ = CalibrationScores.of(scores)
    return conformal


def _tail(score):
    """Scores on a scale that is linear in the target's distance."""
    return -np.log1p(-np.minimum(score, LEVEL)) + np.maximum(score - LEVEL, 0.0)


def _score(tail):
    """The inverse of `_tail`."""
    most = -np.log1p(-LEVEL)
    return -np.expm1(-np.minimum(tail, most)) + np.maximum(tail - most, 0.0)
