"""Recalibration of classifiers and regressors, as the commands show it."""

from typing import ClassVar

import numpy as np

from keras_likelihood.commands.files import UsageError

_BINS = 10


class ClassifierTask:
    """Fits recalibrators to a classifier's logits and judges them.

    The data are dicts of `logits` (or probabilities), class numbers `y` and
    perhaps `features`. Memory-mapped logits are read in blocks. `graph` is the
    `ClassifierGraph` of the model, or `None`.
    """

    name = "classification"
    METHODS: ClassVar = {
        "global": "GlobalScaling",
        "linear": "LinearScaling",
        "features": "LinearFeatureScaling",
        "deep": "DeepScaling",
        "vector": "VectorScaling",
        "matrix": "MatrixScaling",
        "platt": "Platt",
        "isotonic": "Isotonic",
    }
    scores = ("NLL", "ECE", "accuracy")
    gap = "ECE"
    """The score that is close to zero for a calibrated model."""
    expected, observed = "confidence", "accuracy"

    def __init__(self, fitted_to, judged_on, graph=None, from_logits=True):
        self.fitted_to = fitted_to
        self.judged_on = judged_on
        self.from_logits = from_logits
        self._graph = graph
        self._judged: dict = {}

    def methods(self) -> dict:
        """Class names of the methods that these data allow."""
        has_features = self.fitted_to.get("features") is not None
        return {
            name: kind
            for name, kind in {**self.METHODS, "auto": "Auto"}.items()
            if has_features or name not in ("features", "deep")
        }

    def fit(self, method: str):
        """Returns the fitted recalibrator of a method."""
        from keras_likelihood import recalibration

        methods = self.methods()
        if method not in methods:
            raise UsageError(
                f"The method {method!r} needs `features`. Allowed here: "
                f"--method {' or '.join(methods)}. Received: {method}"
            )
        recalibrator = getattr(recalibration, methods[method])()
        return recalibrator.fit_arrays(
            self.fitted_to["logits"],
            self.fitted_to["y"],
            self.fitted_to.get("features"),
            from_logits=self.from_logits,
        )

    def chosen(self, auto) -> str:
        """The choice of `auto`, in words."""
        return auto.parameters_["method"]

    def judge(self, recalibrator) -> dict:
        """Scores on the data to judge on. `None` means the model itself."""
        from keras_likelihood.metrics.functions import binned_error

        right, belief, nll = self._by_rows(recalibrator)
        return {
            "NLL": nll,
            "ECE": binned_error(right, belief),
            "accuracy": float(right.mean()),
        }

    def _by_rows(self, recalibrator):
        """Whether the top class is right, its probability, the mean NLL."""
        from keras_likelihood.metrics import functions

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
        from keras_likelihood.recalibration import GlobalScaling
        from keras_likelihood.recalibration.inputs import blocks

        if recalibrator is None:
            recalibrator = GlobalScaling()
            recalibrator.parameters_ = {"temperature": 1.0}
        logits, features = self.judged_on["logits"], None
        if isinstance(logits, np.memmap):
            parts = blocks(logits)
        else:
            parts, features = [slice(None)], self.judged_on.get("features")
        for part in parts:
            p = recalibrator.calibrate(
                logits[part], features, from_logits=self.from_logits
            )
            yield part, p

    def probabilities(self, recalibrator):
        """Calibrated probabilities, or those of the model for `None`."""
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

    def belief(self, recalibrator) -> str:
        """Whether the model is overconfident, in a sentence."""
        right, belief, _ = self._by_rows(recalibrator)
        return (
            f"Its mean confidence is {belief.mean():.1%}, and "
            f"{right.mean():.1%} of its answers are right."
        )

    def calibrated_model(self, recalibrator):
        """The Keras model with calibrated probabilities as output."""
        return self._graph.extend(recalibrator)

    def write(self, recalibrator, path) -> None:
        """Writes the probabilities as an `.npz`, or an `.npy` in blocks."""
        if path.suffix == ".npz":
            np.savez(path, probabilities=self.probabilities(recalibrator))
            return
        shape = self.judged_on["logits"].shape
        out = np.lib.format.open_memmap(path, "w+", "float32", shape)
        for part, p in self._blocks(recalibrator):
            out[part] = p
        out.flush()


class RegressorTask:
    """Fits recalibrators to a regressor's predictions and judges them.

    The data are dicts of `own`, the predicted distribution, `y`, `features`
    (or `None`) and `has_scale`, whether the scale of `own` was predicted.
    `refit` fits a recalibrator to the model itself, if there is one.
    """

    name = "regression"
    METHODS: ClassVar = {
        "global": "GlobalScaling",
        "linear": "LinearScaling",
        "deep": "DeepScaling",
    }
    scores = ("NLL", "CAL", "in 90 % band", "band width")
    gap = "CAL"
    expected, observed = "promised", "observed"

    def __init__(self, fitted_to, judged_on, refit=None):
        self.fitted_to = fitted_to
        self.judged_on = judged_on
        self.calibrated_model = refit

    def methods(self) -> dict:
        """Class names of the methods that these data allow."""
        return {**self.METHODS, "auto": "Auto"}

    def fit(self, method: str):
        """Returns the fitted recalibrator of a method."""
        if method not in self.methods():
            raise UsageError(
                "The method of a regressor must be one of "
                f"{', '.join(self.methods())}. Received: {method}"
            )
        from keras_likelihood.recalibration import regression

        recalibrator = getattr(regression, self.methods()[method])()
        data = self.fitted_to
        return recalibrator.fit_distribution(
            data["own"], data["y"], features=data["features"]
        )

    def chosen(self, auto) -> str:
        """The choice of `auto`, in words."""
        residuals = auto.parameters_["likelihood"]
        return f"{auto.method_} with {residuals} residuals"

    def distribution(self, recalibrator):
        """The calibrated distribution, or the model's own for `None`.

        It is `None` if the model has no scale.
        """
        data = self.judged_on
        if recalibrator is None:
            return data["own"] if data["has_scale"] else None
        return recalibrator.calibrate(data["own"], features=data["features"])

    def _targets(self, distribution):
        """Targets in the shape and type of the prediction, and their cdf."""
        prediction = _numpy(distribution.prediction)
        y = np.reshape(self.judged_on["y"], prediction.shape)
        y = y.astype(prediction.dtype)
        return y, np.clip(_numpy(distribution.cdf(y)).ravel(), 0, 1)

    def judge(self, recalibrator) -> dict:
        """Scores on the data to judge on. `None` means the model itself."""
        from keras_likelihood.metrics import functions

        distribution = self.distribution(recalibrator)
        if distribution is None:
            return dict.fromkeys(self.scores, float("nan"))
        y, cdf = self._targets(distribution)
        low, high = map(_numpy, distribution.interval(0.9))
        return {
            "NLL": float(_numpy(distribution.nll(y)).mean()),
            "CAL": functions.calibration_error(cdf),
            "in 90 % band": functions.interval_coverage(cdf, 0.9),
            "band width": float(np.mean(high - low)),
        }

    def curve(self, recalibrator) -> list[dict]:
        """The share of targets in the central interval of each coverage."""
        from keras_likelihood.metrics.functions import interval_coverage

        distribution = self.distribution(recalibrator)
        if distribution is None:
            return []
        _, cdf = self._targets(distribution)
        return [
            {
                "name": f"{percent} %",
                "expected": percent / 100,
                "observed": interval_coverage(cdf, percent / 100),
                "count": len(cdf),
            }
            for percent in range(10, 100, 10)
        ]

    def belief(self, recalibrator) -> str:
        """Whether the model is overconfident, in a sentence."""
        if self.distribution(recalibrator) is None:
            return "It predicts a number without an interval."
        inside = self.judge(recalibrator)["in 90 % band"]
        return f"Its 90 % intervals contain {inside:.1%} of the targets."

    def write(self, recalibrator, path) -> None:
        """Writes the parameters of the distributions as an `.npz`."""
        distribution = self.distribution(recalibrator)
        names = ["prediction", *(p.name for p in type(distribution).parameters)]
        np.savez(path, **{n: _numpy(getattr(distribution, n)) for n in names})


def _numpy(tensor):
    import keras

    return keras.ops.convert_to_numpy(tensor)
