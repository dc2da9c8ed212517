"""Recalibration of classifiers and regressors for the commands."""

import pathlib
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from keras_likelihood import recalibration
from keras_likelihood.backend.types import Array
from keras_likelihood.commands.files import UsageError
from keras_likelihood.metrics import functions
from keras_likelihood.reading.targets import as_labels, as_targets
from keras_likelihood.recalibration.inputs import random_folds

_BINS = 10
_FOLDS = 5


class _Task:
    """Fits recalibrators to the outputs of a model and evaluates them.

    The data are dicts of the outputs `own`, labels or targets `y`, and
    `features` or `None`. Without `judged_on`, every row is evaluated by a
    recalibrator that was fitted to the other folds. `calibrated_model` is a
    function of a recalibrator, if there is a model. Methods are names, of which
    `"none"` is the model itself.
    """

    METHODS: ClassVar[dict[str, str]]
    OF_FEATURES: ClassVar[tuple[str, ...]] = ()
    """Methods that need features."""
    CHANGE_CLASSES: ClassVar[tuple[str, ...]] = ()
    """Methods that may change the predicted classes."""
    scores: ClassVar[tuple[str, ...]]
    gap: ClassVar[str]
    _checked: Callable[..., Array]
    _fit: Callable[..., Any]
    _calibrated: Callable[..., Any]
    _gap_by_chance: Callable[..., float]

    def __init__(
        self,
        fitted_to: dict[str, Any],
        judged_on: dict[str, Any] | None,
        calibrated_model: Callable[..., Any] | None = None,
        from_logits: bool = True,
        changes_classes: bool = False,
    ) -> None:
        for data in filter(None, (fitted_to, judged_on)):
            data["y"] = self._checked(data["y"], data["own"])
        self.fitted_to = fitted_to
        self.judged_on = judged_on or fitted_to
        self.calibrated_model = calibrated_model
        self.changes_classes = changes_classes
        self._from_logits = from_logits
        self._fitted: dict[str, Any] = {"none": None}
        self._results: dict[str, Any] = {}
        self._folds: list[Array] | None = None
        if judged_on is None:
            rows = np.arange(len(fitted_to["y"]))[:, None]
            folds = max(2, min(_FOLDS, len(rows)))
            self._folds = random_folds(rows, None, folds, 0)

    @property
    def rows(self) -> str:
        """The rows on which the scores stand, in words."""
        if self._folds is None:
            return f"{len(self.judged_on['y']):,} rows of the test data"
        return (
            f"{len(self.fitted_to['y']):,} rows, each by a fit to the other "
            f"{len(self._folds) - 1} of {len(self._folds)} folds"
        )

    def methods(self) -> dict[str, str]:
        """Class names of the methods that these data allow."""
        has_features = self.fitted_to["features"] is not None
        lost = () if has_features else self.OF_FEATURES
        lost += () if self.changes_classes else self.CHANGE_CLASSES
        every = self.METHODS
        return {name: kind for name, kind in every.items() if name not in lost}

    def fit(self, method: str) -> Any:
        """Returns the recalibrator of a method, fitted to all rows."""
        if method not in self._fitted:
            self._fitted[method] = self._fit(self._kind(method), self.fitted_to)
        return self._fitted[method]

    def _kind(self, method: str) -> str:
        methods = self.methods()
        if method in methods:
            return methods[method]
        needs = f"{method!r} needs `features`. "
        if method in self.CHANGE_CLASSES:
            needs = f"{method!r} may change the predicted classes, which "
            needs += "--change-classes allows. "
        raise UsageError(
            f"{needs * (method in self.METHODS)}The method must be one of "
            f"{', '.join(methods)}. Received: {method}"
        )

    def _result(self, method: str) -> Any:
        """The calibrated output of the rows to evaluate on."""
        if method in self._results:
            return self._results[method]
        if self._folds is None or method == "none":
            result = self._calibrated(self.fit(method), self.judged_on)
        else:
            kind, parts = self._kind(method), []
            for fold in self._folds:
                rest = np.delete(np.arange(len(self.fitted_to["y"])), fold)
                fitted = self._fit(kind, self._rows_of(rest))
                parts.append(self._calibrated(fitted, self._rows_of(fold)))
            result = tuple(map(np.concatenate, zip(*parts, strict=True)))
        self._results[method] = result
        return result

    def _rows_of(self, rows: Array) -> dict[str, Any]:
        return {
            name: value if np.isscalar(value) or value is None else value[rows]
            for name, value in self.fitted_to.items()
        }

    def gap_by_chance(self) -> float:
        """95 % quantile of the gap of perfectly calibrated models."""
        random = np.random.default_rng(0)
        gaps = [self._gap_by_chance(random) for _ in range(100)]
        return float(np.quantile(gaps, 0.95))


class ClassifierTask(_Task):
    """The outputs are logits, or probabilities without `from_logits`."""

    name = "classification"
    METHODS: ClassVar = {
        "auto": "AutoScaling",
        "global": "GlobalScaling",
        "linear": "LinearScaling",
        "features": "LinearFeatureScaling",
        "deep": "DeepScaling",
        "vector": "VectorScaling",
        "matrix": "MatrixScaling",
    }
    OF_FEATURES = ("features", "deep")
    CHANGE_CLASSES = ("vector", "matrix")
    scores = ("NLL", "ECE", "accuracy")
    gap = "ECE"
    """The score that is close to zero for a calibrated model."""
    expected, observed = "confidence", "accuracy"

    def _checked(self, y: Array, logits: Array) -> Array:
        shape = logits.shape if logits.ndim > 1 else (*logits.shape, 1)
        return as_labels(y, shape).reshape(shape[:-1])

    def _fit(self, kind: str, data: dict[str, Any]) -> Any:
        given = data["own"], data["y"], data["features"]
        options = {}
        if kind == "AutoScaling":
            options["keep_accuracy"] = not self.changes_classes
        recalibrator = getattr(recalibration, kind)(**options)
        return recalibrator.fit_arrays(*given, from_logits=self._from_logits)

    def chosen(self, auto: Any) -> str:
        """The choice of `auto`, in words."""
        return auto.parameters_["method"]

    def judge(self, method: str) -> dict[str, float]:
        """Scores on the rows to evaluate on."""
        right, belief, nll = self._result(method)
        ece = functions.binned_error(right, belief)
        return {
            "NLL": float(nll.mean()),
            "ECE": ece,
            "accuracy": float(right.mean()),
        }

    def _calibrated(self, recalibrator: Any, data: dict[str, Any]) -> Any:
        """Whether the top class is right, its probability, and the NLL."""
        y, p = data["y"], self._probabilities(recalibrator, data)
        nll = np.full(y.size, functions.negative_log_likelihood(y, p))
        return *functions.top_class(y, p), nll

    def _probabilities(self, recalibrator: Any, data: dict[str, Any]) -> Array:
        if recalibrator is None:
            recalibrator = recalibration.GlobalScaling()
            recalibrator.parameters_ = {"temperature": 1.0}
        options = {"from_logits": self._from_logits}
        return recalibrator.calibrate(data["own"], data["features"], **options)

    def probabilities(self, method: str) -> Array:
        """Calibrated probabilities, of the shape of the logits."""
        return self._probabilities(self.fit(method), self.judged_on)

    def curve(self, method: str) -> list[dict[str, Any]]:
        """Confidence and accuracy of the top class, in bins of confidence."""
        right, belief, _ = self._result(method)
        at = np.clip((belief * _BINS).astype(int), 0, _BINS - 1)
        return [
            {
                "name": f"{10 * bin_:.0f}-{10 * bin_ + 10:.0f} %",
                "expected": float(belief[at == bin_].mean()),
                "observed": float(right[at == bin_].mean()),
                "count": int((at == bin_).sum()),
            }
            for bin_ in np.unique(at)
        ]

    def _gap_by_chance(self, random: Any) -> float:
        _, belief, _ = self._result("none")
        right = random.random(len(belief)) < belief
        return functions.binned_error(right, belief)

    def belief(self) -> str:
        """Whether the model is overconfident, in a sentence."""
        right, belief, _ = self._result("none")
        return (
            f"Its mean confidence is {belief.mean():.1%}, and "
            f"{right.mean():.1%} of its answers are right."
        )

    def write(self, method: str, path: pathlib.Path) -> None:
        """Writes the probabilities as an `.npz`."""
        np.savez(path, probabilities=self.probabilities(method))


class RegressorTask(_Task):
    """The outputs are a NumPy distribution, of scale 1 without `has_scale`."""

    name = "regression"
    METHODS: ClassVar = {
        "auto": "AutoRescaling",
        "global": "GlobalRescaling",
        "linear": "LinearRescaling",
        "deep": "DeepRescaling",
    }
    scores = ("NLL", "CAL", "in 90 % band", "band width")
    gap = "CAL"
    expected, observed = "promised", "observed"

    def _checked(self, y: Array, distribution: Any) -> Array:
        return as_targets(y, tuple(distribution.prediction.shape))

    def _fit(self, kind: str, data: dict[str, Any]) -> Any:
        return getattr(recalibration.regression, kind)().fit_distribution(
            data["own"], data["y"], features=data["features"]
        )

    def chosen(self, auto: Any) -> str:
        residuals = auto.parameters_["likelihood"]
        return f"{auto.method_} with {residuals} residuals"

    def distribution(self, method: str) -> Any:
        """The calibrated distribution, `None` if the model has no scale."""
        return self._distribution(self.fit(method), self.judged_on)

    def _distribution(self, recalibrator: Any, data: dict[str, Any]) -> Any:
        own, features = data["own"], data["features"]
        if recalibrator is None:
            return own if data["has_scale"] else None
        return recalibrator.calibrate(own, features=features).as_numpy()

    def _calibrated(self, recalibrator: Any, data: dict[str, Any]) -> Any:
        """NLL, cdf and width of the 90 % interval of every row."""
        distribution = self._distribution(recalibrator, data)
        if distribution is None:
            return None
        prediction = distribution.prediction
        y = np.reshape(data["y"], prediction.shape).astype(prediction.dtype)
        low, high = distribution.interval(0.9)
        values = distribution.nll(y), distribution.cdf(y).clip(0, 1), high - low
        return tuple(map(np.ravel, values))

    def judge(self, method: str) -> dict[str, float]:
        result = self._result(method)
        if result is None:
            return dict.fromkeys(self.scores, float("nan"))
        nll, cdf, width = result
        return {
            "NLL": float(nll.mean()),
            "CAL": functions.calibration_error(cdf),
            "in 90 % band": functions.interval_coverage(cdf, 0.9),
            "band width": float(width.mean()),
        }

    def curve(self, method: str) -> list[dict[str, Any]]:
        """The share of targets in the central interval of each coverage."""
        result = self._result(method)
        if result is None:
            return []
        return [
            {
                "name": f"{percent} %",
                "expected": percent / 100,
                "observed": functions.interval_coverage(
                    result[1], percent / 100
                ),
                "count": len(result[1]),
            }
            for percent in range(10, 100, 10)
        ]

    def _gap_by_chance(self, random: Any) -> float:
        cdf = random.random(len(self.judged_on["y"]))
        return functions.calibration_error(cdf)

    def belief(self) -> str:
        if not self.judged_on["has_scale"]:
            return "It predicts a number without an interval."
        inside = self.judge("none")["in 90 % band"]
        return f"Its 90 % intervals contain {inside:.1%} of the targets."

    def write(self, method: str, path: pathlib.Path) -> None:
        """Writes the parameters of the distributions as an `.npz`."""
        np.savez(path, **self.distribution(method).values())
