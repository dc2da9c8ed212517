"""Recalibration of classifiers and regressors for the commands."""

import pathlib
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from keras_likelihood import recalibration
from keras_likelihood.backend.types import Array
from keras_likelihood.commands.files import UsageError
from keras_likelihood.likelihoods import Likelihood
from keras_likelihood.metrics import functions
from keras_likelihood.reading.targets import as_labels, as_targets
from keras_likelihood.recalibration.inputs import (
    blocks,
    random_folds,
    rows_to_fit,
)

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
        if method not in self._results:
            if self._folds is None or method == "none":
                found = self._calibrated(self.fit(method), self.judged_on)
            else:
                kind, parts = self._kind(method), []
                for held in self._folds:
                    rest = np.delete(np.arange(len(self.fitted_to["y"])), held)
                    fitted = self._fit(kind, self._rows_of(rest))
                    parts.append(self._calibrated(fitted, self._rows_of(held)))
                found = tuple(map(np.concatenate, zip(*parts, strict=True)))
            self._results[method] = found
        return self._results[method]

    def _rows_of(self, rows: Array) -> dict[str, Any]:
        return {
            name: value
            if value is None or isinstance(value, bool)
            else self._take(value, rows)
            for name, value in self.fitted_to.items()
        }

    @staticmethod
    def _take(value: Any, rows: Array) -> Any:
        return value[rows]

    def gap_by_chance(self) -> float:
        """95 % quantile of the gap of perfectly calibrated models."""
        random = np.random.default_rng(0)
        gaps = [self._gap_by_chance(random) for _ in range(100)]
        return float(np.quantile(gaps, 0.95))


class ClassifierTask(_Task):
    """The outputs are logits, or probabilities without `from_logits`.

    Memory-mapped logits are read in blocks. Without other rows to evaluate on,
    at most 256 MiB of them are read.
    """

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

    def __init__(
        self,
        fitted_to: dict[str, Any],
        judged_on: dict[str, Any] | None,
        *args: Any,
        **options: Any,
    ) -> None:
        self._whole = judged_on or fitted_to
        if judged_on is None:
            own, y = rows_to_fit(fitted_to["own"], fitted_to["y"])
            fitted_to = {**fitted_to, "own": own, "y": y}
        super().__init__(fitted_to, judged_on, *args, **options)

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
        found = []
        for part, p in self._blocks(recalibrator, data):
            y = data["y"][part]
            nll = np.full(y.size, functions.negative_log_likelihood(y, p))
            found.append((*functions.top_class(y, p), nll))
        return tuple(map(np.concatenate, zip(*found, strict=True)))

    def _blocks(
        self, recalibrator: Any, data: dict[str, Any]
    ) -> Iterator[tuple[slice, Array]]:
        """Parts of the rows, and their calibrated probabilities."""
        if recalibrator is None:
            recalibrator = recalibration.GlobalScaling()
            recalibrator.parameters_ = {"temperature": 1.0}
        logits, features = data["own"], data["features"]
        is_file = isinstance(logits, np.memmap)
        options = {"from_logits": self._from_logits}
        for part in blocks(logits) if is_file else [slice(None)]:
            yield (
                part,
                recalibrator.calibrate(logits[part], features, **options),
            )

    def probabilities(self, method: str) -> Array:
        """Calibrated probabilities, of the shape of the logits."""
        parts = self._blocks(self.fit(method), self._whole)
        return np.concatenate([p for _, p in parts])

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
        """Writes the probabilities as an `.npz`, or an `.npy` in blocks."""
        if path.suffix == ".npz":
            np.savez(path, probabilities=self.probabilities(method))
            return
        logits, fitted = self._whole["own"], self.fit(method)
        out = np.lib.format.open_memmap(path, "w+", "float32", logits.shape)
        fitted.calibrate(logits, from_logits=self._from_logits, out=out)
        out.flush()


def coverage_curve(cdf) -> list[dict]:
    """The share of targets in the central interval of each coverage."""
    return [
        {
            "name": f"{percent} %",
            "expected": percent / 100,
            "observed": functions.interval_coverage(cdf, percent / 100),
            "count": len(cdf),
        }
        for percent in range(10, 100, 10)
    ]


class RegressorTask(_Task):
    """The outputs are a distribution, whose scale is 1 without `has_scale`."""

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

    @staticmethod
    def _take(value: Any, rows: Array) -> Any:
        if not isinstance(value, Likelihood):
            return value[rows]
        values = {
            name: array[rows] if np.ndim(array) else array
            for name, array in value.as_numpy().values().items()
        }
        return type(value)(**values)

    def _fit(self, kind: str, data: dict[str, Any]) -> Any:
        return getattr(recalibration.regression, kind)().fit_distribution(
            data["own"], data["y"], features=data["features"]
        )

    def chosen(self, auto: Any) -> str:
        residuals = auto.parameters_["likelihood"]
        return f"{auto.method_} with {residuals} residuals"

    def distribution(self, method: str) -> Any:
        """The calibrated distribution, `None` if the model has no scale."""
        fitted, data = self.fit(method), self.judged_on
        if fitted is None:
            return data["own"].as_numpy() if data["has_scale"] else None
        features = data["features"]
        return fitted.calibrate(data["own"], features=features).as_numpy()

    def _calibrated(self, recalibrator: Any, data: dict[str, Any]) -> Any:
        """NLL, cdf and width of the 90 % interval of every row."""
        found = data["own"]
        if recalibrator is not None:
            found = recalibrator.calibrate(found, features=data["features"])
        elif not data["has_scale"]:
            return None
        found = found.as_numpy()
        prediction = found.prediction
        y = np.reshape(data["y"], prediction.shape).astype(prediction.dtype)
        low, high = found.interval(0.9)
        cdf = np.clip(found.cdf(y), 0, 1)
        return tuple(np.ravel(v) for v in (found.nll(y), cdf, high - low))

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
        result = self._result(method)
        return [] if result is None else coverage_curve(result[1])

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
