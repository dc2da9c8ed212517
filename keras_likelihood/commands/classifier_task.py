"""Recalibration of a classifier, as commands and pages show it."""

import numpy as np

from keras_likelihood.commands.command_error import UsageError

METHODS = {
    "global": "GlobalScaling",
    "linear": "LinearScaling",
    "features": "LinearFeatureScaling",
    "deep": "DeepScaling",
    "vector": "VectorScaling",
    "matrix": "MatrixScaling",
    "platt": "Platt",
    "isotonic": "Isotonic",
}
_BINS = 10


class ClassifierTask:
    """Fits recalibrators to a classifier's logits and judges them.

    The data are dicts of `logits` (or probabilities), class numbers `y` and
    perhaps `features`. Memory-mapped logits are read in blocks. `graph` is the
    `ClassifierGraph` of the model, or `None`.
    """

    name = "classification"
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
            for name, kind in {**METHODS, "auto": "Auto"}.items()
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
