"""Base class of the outlier detectors."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.special import erf
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.checks import check_argument


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class OutlierDetector(BaseEstimator):
    """Base class of the detectors, with the interface of PyOD.

    A subclass fits rows `(n, d)` and returns their scores (`_fit`), and scores
    rows (`_score`). A higher score means a stranger row.

    Attributes set by fitting:
        decision_scores_: scores of the training rows, `(n,)`.
        threshold_: the score above which a row is called an outlier.
        labels_: 1 for training rows above it, 0 for the others.

    Args:
        contamination: share of outliers in the training data, in (0, 0.5]. It
            only sets the threshold. Defaults to 0.1.
    """

    contamination: float = 0.1
    _fit: ClassVar[Callable[..., Any]]
    _score: ClassVar[Callable[..., Any]]

    def fit(self, X: Any, y: Array | None = None) -> Any:  # noqa: N803
        """Fits the detector to rows without labels; `y` is ignored."""
        share = self.contamination
        check_argument("contamination", share, 0 < share <= 0.5, "in (0, 0.5]")
        self.decision_scores_ = self._fit(self._check(X, reset=True))
        self._set_threshold()
        return self

    def decision_function(self, X: Array) -> Array:  # noqa: N803
        """Scores of training or new rows, `(n,)`. Higher is stranger."""
        check_is_fitted(self, "decision_scores_")
        return self._score(self._check(X, reset=False))

    def predict(self, X: Array) -> Array:  # noqa: N803
        """1 for outliers, 0 for others, `(n,)`."""
        return self._to_labels(self.decision_function(X))

    def predict_proba(self, X: Array, method: str = "linear") -> Array:  # noqa: N803
        """Probabilities of inlier and outlier, `(n, 2)`.

        Args:
            X: rows.
            method: `"linear"` maps the range of the training scores to [0, 1].
                `"unify"` uses the error function of the standardised score,
                and zero below the mean.
        """
        is_known = method in ("linear", "unify")
        check_argument("method", method, is_known, "'linear' or 'unify'")
        scores = self.decision_function(X)
        known = self.decision_scores_
        if method == "linear":
            low, high = known.min(), known.max()
            outlier = (scores - low) / max(high - low, 1e-30)
        else:
            deviation = max(known.std(), 1e-30)
            outlier = erf((scores - known.mean()) / (deviation * np.sqrt(2)))
        outlier = np.clip(outlier, 0.0, 1.0)
        return np.stack([1 - outlier, outlier], axis=1)

    def fit_predict(self, X: Array, y: Array | None = None) -> Array:  # noqa: N803
        """Fits, and returns `labels_`."""
        return self.fit(X).labels_

    def _set_threshold(self) -> None:
        scores, share = self.decision_scores_, 1 - self.contamination
        self.threshold_ = float(np.quantile(scores, share))
        self.labels_ = self._to_labels(scores)

    def _to_labels(self, scores: Array) -> Array:
        return (scores > self.threshold_).astype("int64")

    def _check(self, x: Any, reset: bool) -> Array:
        least = 2 if reset else 1
        return validate_data(
            self, x, reset=reset, dtype="float64", ensure_min_samples=least
        )
