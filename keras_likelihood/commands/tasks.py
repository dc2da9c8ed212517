"""Recalibration of classifiers and regressors for the commands.

A recalibrator that is `None` stands for the model itself.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from keras_likelihood import recalibration
from keras_likelihood.commands.files import UsageError
from keras_likelihood.metrics import functions
from keras_likelihood.reading.targets import as_labels, as_targets
from keras_likelihood.recalibration.inputs import blocks

_BINS = 10


class _Task:
    """Fits recalibrators to the outputs of a model and judges them.

    The data are dicts of the outputs `own`, labels or targets `y`, and
    `features` or `None`. `calibrated_model` is a function of a recalibrator,
    if there is a model.
    """

    METHODS: ClassVar[dict[str, str]]
    OF_FEATURES: ClassVar[tuple] = ()
    """Methods that need features."""
    _checked: Callable
    _fit: Callable
    _gap_by_chance: Callable

    def __init__(
        self, fitted_to, judged_on, calibrated_model=None, from_logits=True
    ):
        self.fitted_to = fitted_to
        self.judged_on = judged_on or fitted_to
        self.calibrated_model = calibrated_model
        self._from_logits = from_logits
        self._judged: dict = {}
        for data in (self.fitted_to, self.judged_on):
            data["y"] = self._checked(data["y"], data["own"])

    def methods(self) -> dict:
        """Class names of the methods that these data allow."""
        has_features = self.fitted_to["features"] is not None
        lost = () if has_features else self.OF_FEATURES
        every = self.METHODS
        return {name: kind for name, kind in every.items() if name not in lost}

    def fit(self, method: str):
        """Returns the fitted recalibrator of a method."""
        methods = self.methods()
        if method not in methods:
            needs = f"{method!r} needs `features`. " * (method in self.METHODS)
            raise UsageError(
                f"{needs}The method must be one of {', '.join(methods)}. "
                f"Received: {method}"
            )
        return self._fit(methods[method], self.fitted_to)

    def gap_by_chance(self) -> float:
        """95 % quantile of the gap of perfectly calibrated models."""
        random = np.random.default_rng(0)
        gaps = [self._gap_by_chance(random) for _ in range(100)]
        return float(np.quantile(gaps, 0.95))


class ClassifierTask(_Task):
    """The outputs are logits, or probabilities without `from_logits`.

    Memory-mapped logits are read in blocks.
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
    scores = ("NLL", "ECE", "accuracy")
    gap = "ECE"
    """The score that is close to zero for a calibrated model."""
    expected, observed = "confidence", "accuracy"

    def _checked(self, y, logits):
        shape = logits.shape if logits.ndim > 1 else (*logits.shape, 1)
        return as_labels(y, shape).reshape(shape[:-1])

    def _fit(self, kind, data):
        given = data["own"], data["y"], data["features"]
        recalibrator = getattr(recalibration, kind)()
        return recalibrator.fit_arrays(*given, from_logits=self._from_logits)

    def chosen(self, auto) -> str:
        """The choice of `auto`, in words."""
        return auto.parameters_["method"]

    def judge(self, recalibrator) -> dict:
        """Scores on the data to judge on."""
        right, belief, nll = self._by_rows(recalibrator)
        ece = functions.binned_error(right, belief)
        return {"NLL": nll, "ECE": ece, "accuracy": float(right.mean())}

    def _by_rows(self, recalibrator):
        """Whether the top class is right, its probability, the mean NLL."""
        if recalibrator not in self._judged:
            tops, nll = [], 0.0
            for part, p in self._blocks(recalibrator):
                y = self.judged_on["y"][part]
                tops.append(functions.top_class(y, p))
                nll += functions.negative_log_likelihood(y, p) * y.size
            right, belief = map(np.concatenate, zip(*tops, strict=True))
            self._judged[recalibrator] = right, belief, nll / len(right)
        return self._judged[recalibrator]

    def _blocks(self, recalibrator):
        """Parts of the rows, and their calibrated probabilities."""
        if recalibrator is None:
            recalibrator = recalibration.GlobalScaling()
            recalibrator.parameters_ = {"temperature": 1.0}
        logits, features = self.judged_on["own"], self.judged_on["features"]
        is_file = isinstance(logits, np.memmap)
        options = {"from_logits": self._from_logits}
        for part in blocks(logits) if is_file else [slice(None)]:
            p = recalibrator.calibrate(logits[part], features, **options)
            yield part, p

    def probabilities(self, recalibrator):
        """Calibrated probabilities, of the shape of the logits."""
        return np.concatenate([p for _, p in self._blocks(recalibrator)])

    def curve(self, recalibrator) -> list[dict]:
        """Confidence and accuracy of the top class, in bins of confidence."""
        right, belief, _ = self._by_rows(recalibrator)
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

    def _gap_by_chance(self, random):
        _, belief, _ = self._by_rows(None)
        right = random.random(len(belief)) < belief
        return functions.binned_error(right, belief)

    def belief(self) -> str:
        """Whether the model is overconfident, in a sentence."""
        right, belief, _ = self._by_rows(None)
        return (
            f"Its mean confidence is {belief.mean():.1%}, and "
            f"{right.mean():.1%} of its answers are right."
        )

    def write(self, recalibrator, path) -> None:
        """Writes the probabilities as an `.npz`, or an `.npy` in blocks."""
        if path.suffix == ".npz":
            np.savez(path, probabilities=self.probabilities(recalibrator))
            return
        logits = self.judged_on["own"]
        out = np.lib.format.open_memmap(path, "w+", "float32", logits.shape)
        recalibrator.calibrate(logits, from_logits=self._from_logits, out=out)
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

    def _checked(self, y, distribution):
        return as_targets(y, tuple(distribution.prediction.shape))

    def _fit(self, kind, data):
        return getattr(recalibration.regression, kind)().fit_distribution(
            data["own"], data["y"], features=data["features"]
        )

    def chosen(self, auto) -> str:
        residuals = auto.parameters_["likelihood"]
        return f"{auto.method_} with {residuals} residuals"

    def distribution(self, recalibrator):
        """The calibrated distribution, `None` if the model has no scale."""
        found, data = self.judged_on["own"], self.judged_on
        if recalibrator is not None:
            found = recalibrator.calibrate(found, features=data["features"])
        elif not data["has_scale"]:
            return None
        return found.as_numpy()

    def _targets(self, distribution):
        """Targets in the shape and type of the prediction, and their cdf."""
        prediction = distribution.prediction
        y = np.reshape(self.judged_on["y"], prediction.shape)
        y = y.astype(prediction.dtype)
        return y, np.clip(distribution.cdf(y).ravel(), 0, 1)

    def judge(self, recalibrator) -> dict:
        distribution = self.distribution(recalibrator)
        if distribution is None:
            return dict.fromkeys(self.scores, float("nan"))
        y, cdf = self._targets(distribution)
        low, high = distribution.interval(0.9)
        return {
            "NLL": float(distribution.nll(y).mean()),
            "CAL": functions.calibration_error(cdf),
            "in 90 % band": functions.interval_coverage(cdf, 0.9),
            "band width": float(np.mean(high - low)),
        }

    def curve(self, recalibrator) -> list[dict]:
        distribution = self.distribution(recalibrator)
        if distribution is None:
            return []
        return coverage_curve(self._targets(distribution)[1])

    def _gap_by_chance(self, random):
        cdf = random.random(len(self.judged_on["y"]))
        return functions.calibration_error(cdf)

    def belief(self) -> str:
        if not self.judged_on["has_scale"]:
            return "It predicts a number without an interval."
        inside = self.judge(None)["in 90 % band"]
        return f"Its 90 % intervals contain {inside:.1%} of the targets."

    def write(self, recalibrator, path) -> None:
        """Writes the parameters of the distributions as an `.npz`."""
        np.savez(path, **self.distribution(recalibrator).values())
