"""Recalibration of classifiers and regressors for the commands."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeAlias

import numpy as np

from keras_likelihood import recalibration
from keras_likelihood.backend.types import Array
from keras_likelihood.commands.files import UsageError
from keras_likelihood.metrics import functions
from keras_likelihood.reading.targets import as_labels, as_targets
from keras_likelihood.recalibration.inputs import random_folds

_BINS = 10
_FOLDS = 5
Data: TypeAlias = dict[str, Any]
"""The outputs `own` of a model, `y`, and `features` or `None`."""
Columns: TypeAlias = dict[str, Array]
"""What every row shows of the calibration, such as its NLL, `(n,)` each."""
Point: TypeAlias = dict[str, Any]
"""Name, expected and observed share, and count of rows."""


class Task:
    """Fits recalibrators to the outputs of a model and evaluates them.

    They are fitted to `data` and evaluated on `test`. Without a test, every row
    is evaluated by a recalibrator that was fitted to the other folds. With
    `halves`, one random half is the test. `calibrated_model` is a function of a
    recalibrator, if there is a model. Methods are names, of which `"none"` is
    the model itself. `options` are further arguments of `fit_arrays` and
    `calibrate`.
    """

    METHODS: ClassVar[dict[str, str]]
    OF_FEATURES: ClassVar[tuple[str, ...]] = ()
    """Methods that need features."""
    CHANGE_CLASSES: ClassVar[tuple[str, ...]] = ()
    """Methods that may change the predicted classes."""
    name: ClassVar[str]
    scores: ClassVar[dict[str, Callable[[Columns], float]]]
    gap: ClassVar[str]
    """The score that is close to zero for a calibrated model."""
    axes: ClassVar[tuple[str, str]]
    """What a reliability diagram shows."""
    chosen: Callable[[Any], str]
    belief: Callable[[], str]
    _room: ClassVar[Any]
    _checked: Callable[..., Array]
    _columns: Callable[[Any, Array], Columns]
    _points: Callable[[Columns], list[Point]]
    _by_chance: Callable[[np.random.Generator], Columns]

    def __init__(
        self,
        data: Data,
        test: Data | None = None,
        calibrated_model: Callable[..., Any] | None = None,
        *,
        changes_classes: bool = False,
        halves: bool = False,
        **options: Any,
    ) -> None:
        for each in filter(None, (data, test)):
            each["y"] = self._checked(each["y"], each["own"])
        self.features = data["features"]
        self.calibrated_model = calibrated_model
        self.changes_classes = changes_classes
        self._options = options
        self._fitted: dict[str, Any] = {"none": None}
        self._results: dict[str, Columns] = {}
        self._folds: list[Array] = []
        self.judged_rows = rows = np.arange(len((test or data)["y"]))
        if test is None and halves:
            order = np.random.default_rng(0).permutation(rows)
            first, self.judged_rows = map(np.sort, np.array_split(order, 2))
            data, test = _part(data, first), _part(data, self.judged_rows)
        elif test is None:
            folds = max(2, min(_FOLDS, len(rows)))
            self._folds = random_folds(rows[:, None], None, folds, 0)
        self._data, self.judged_on = data, test or data

    @property
    def rows(self) -> str:
        """The rows on which the scores stand, in words."""
        count, folds = len(self.judged_on["y"]), len(self._folds)
        if not folds:
            return f"{count:,} rows of the test data"
        others = f"{folds - 1} of {folds} folds"
        return f"{count:,} rows, each by a fit to the other {others}"

    def methods(self) -> dict[str, str]:
        """Class names of the methods that these data allow."""
        lost = self.OF_FEATURES if self.features is None else ()
        lost += () if self.changes_classes else self.CHANGE_CLASSES
        every = self.METHODS
        return {name: kind for name, kind in every.items() if name not in lost}

    def fit(self, method: str, data: Data | None = None) -> Any:
        """Returns the recalibrator of a method, by default of all rows."""
        if data is None and method in self._fitted:
            return self._fitted[method]
        if method not in self.methods():
            needs = f"{method!r} needs `features`. "
            if method in self.CHANGE_CLASSES:
                needs = f"{method!r} may change the predicted classes, which "
                needs += "--change-classes allows. "
            raise UsageError(
                f"{needs * (method in self.METHODS)}The method must be one of "
                f"{', '.join(self.methods())}. Received: {method}"
            )
        kind = self.methods()[method]
        choice = {"keep_accuracy": not self.changes_classes}
        recalibrator = getattr(self._room, kind)(
            **(choice if kind == "AutoScaling" else {})
        )
        on = data or self._data
        options = {"features": on["features"], **self._options}
        fitted = recalibrator.fit_arrays(on["own"], on["y"], **options)
        if data is None:
            self._fitted[method] = fitted
        return fitted

    def _output(self, recalibrator: Any, data: Data) -> Any:
        options = {"features": data["features"], **self._options}
        return recalibrator.calibrate(data["own"], **options)

    def output(self, method: str) -> Any:
        """Calibrated probabilities, or a distribution if there is a scale."""
        return self._output(self.fit(method), self.judged_on)

    def arrays(self, method: str) -> dict[str, Array]:
        """The same as arrays by name."""
        output = self.output(method)
        is_array = isinstance(output, np.ndarray)
        return {"probabilities": output} if is_array else dict(output.values())

    def _outputs(self, method: str) -> Iterator[tuple[Any, Array]]:
        """Outputs and targets of the rows to evaluate on."""
        if not self._folds or method == "none":
            yield self.output(method), self.judged_on["y"]
            return
        rows = np.arange(len(self.judged_on["y"]))
        for fold in self._folds:
            rest, data = np.delete(rows, fold), _part(self._data, fold)
            fitted = self.fit(method, _part(self._data, rest))
            yield self._output(fitted, data), data["y"]

    def _result(self, method: str) -> Columns:
        """The columns of the rows to evaluate on, {} without a scale."""
        if method not in self._results:
            pairs = self._outputs(method)
            parts = [{} if o is None else self._columns(o, y) for o, y in pairs]
            self._results[method] = {
                name: np.concatenate([part[name] for part in parts])
                for name in parts[0]
            }
        return self._results[method]

    def judge(self, method: str) -> dict[str, float]:
        """Scores on the rows to evaluate on, NaN without a scale."""
        if result := self._result(method):
            return {k: float(score(result)) for k, score in self.scores.items()}
        return dict.fromkeys(self.scores, float("nan"))

    def curve(self, method: str) -> list[Point]:
        """Points of the reliability diagram."""
        result = self._result(method)
        return self._points(result) if result else []

    def gap_by_chance(self) -> float:
        """95 % quantile of the gap of perfectly calibrated models."""
        random = np.random.default_rng(0)
        gap = self.scores[self.gap]
        gaps = [gap(self._by_chance(random)) for _ in range(100)]
        return float(np.quantile(gaps, 0.95))


def _point(name: str, expected: float, observed: float, count: float) -> Point:
    named = {"name": name, "expected": expected, "observed": observed}
    return {**named, "count": int(count)}


def _part(data: Data, rows: Array) -> Data:
    return {
        name: value if value is None or np.isscalar(value) else value[rows]
        for name, value in data.items()
    }


class ClassifierTask(Task):
    """The outputs are logits, or probabilities with `from_logits=False`."""

    _room: ClassVar[Any] = recalibration
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
    scores: ClassVar = {
        "NLL": lambda of: of["nll"].mean(),
        "ECE": lambda of: functions.binned_error(
            of["accuracy"], of["confidence"]
        ),
        "accuracy": lambda of: of["accuracy"].mean(),
    }
    gap = "ECE"
    axes = ("confidence", "accuracy")

    def _checked(self, y: Array, logits: Array) -> Array:
        shape = logits.shape if logits.ndim > 1 else (*logits.shape, 1)
        return as_labels(y, shape).reshape(shape[:-1])

    def chosen(self, auto: Any) -> str:
        """The choice of `auto`, in words."""
        return auto.parameters_["method"]

    def _output(self, recalibrator: Any, data: Data) -> Array:
        if recalibrator is None:
            recalibrator = recalibration.GlobalScaling()
            recalibrator.parameters_ = {"temperature": 1.0}
        return super()._output(recalibrator, data)

    def _columns(self, p: Array, y: Array) -> Columns:
        right, confidence = functions.top_class(y, p)
        nll = np.full(y.size, functions.negative_log_likelihood(y, p))
        return {"accuracy": right, "confidence": confidence, "nll": nll}

    def _points(self, of: Columns) -> list[Point]:
        bins = functions.reliability_bins(
            of["accuracy"], of["confidence"], bins=_BINS
        )
        points = []
        for predicted, share, size in np.transpose(bins).tolist():
            low = 10 * min(int(predicted * _BINS), _BINS - 1)
            points.append(_point(f"{low}-{low + 10} %", predicted, share, size))
        return points

    def _by_chance(self, random: np.random.Generator) -> Columns:
        of = self._result("none")
        right = random.random(len(of["nll"])) < of["confidence"]
        return {**of, "accuracy": right}

    def belief(self) -> str:
        """Whether the model is overconfident, in a sentence."""
        of = self._result("none")
        return (
            f"Its mean confidence is {of['confidence'].mean():.1%}, and "
            f"{of['accuracy'].mean():.1%} of its answers are right."
        )


class RegressorTask(Task):
    """The outputs are a NumPy distribution, of scale 1 without `has_scale`."""

    _room: ClassVar[Any] = recalibration.regression
    name = "regression"
    METHODS: ClassVar = {
        "auto": "AutoRescaling",
        "global": "GlobalRescaling",
        "linear": "LinearRescaling",
        "deep": "DeepRescaling",
    }
    scores: ClassVar = {
        "NLL": lambda of: of["nll"].mean(),
        "CAL": lambda of: functions.calibration_error(of["cdf"]),
        "in 90 % band": lambda of: functions.interval_coverage(of["cdf"]),
        "band width": lambda of: of["width"].mean(),
    }
    gap = "CAL"
    axes = ("promised", "observed")

    def _checked(self, y: Array, distribution: Any) -> Array:
        return as_targets(y, tuple(distribution.prediction.shape))

    def chosen(self, auto: Any) -> str:
        residuals = auto.parameters_["likelihood"]
        return f"{auto.method_} with {residuals} residuals"

    def _output(self, recalibrator: Any, data: Data) -> Any:
        if recalibrator is not None:
            return super()._output(recalibrator, data)
        return data["own"] if data["has_scale"] else None

    def _columns(self, distribution: Any, y: Array) -> Columns:
        prediction = distribution.prediction
        y = np.reshape(y, prediction.shape).astype(prediction.dtype)
        low, high = distribution.interval(0.9)
        columns = {"nll": distribution.nll(y), "width": high - low}
        columns["cdf"] = distribution.cdf(y).clip(0, 1)
        return {name: np.ravel(values) for name, values in columns.items()}

    def _points(self, of: Columns) -> list[Point]:
        levels = [(at / 10, of["cdf"]) for at in range(1, 10)]
        inside = functions.interval_coverage
        return [_point(f"{p:.0%}", p, inside(v, p), len(v)) for p, v in levels]

    def _by_chance(self, random: np.random.Generator) -> Columns:
        return {"cdf": random.random(len(self.judged_on["y"]))}

    def belief(self) -> str:
        if not self.judged_on["has_scale"]:
            return "It predicts a number without an interval."
        inside = self.judge("none")["in 90 % band"]
        return f"Its 90 % intervals contain {inside:.1%} of the targets."
