"""Recalibration of a classifier, as commands and pages show it."""

import pathlib

import numpy as np

from keras_likelihood.commands.archives import regular_file
from keras_likelihood.commands.command_error import CommandError, UsageError

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
_DRAWN = 100_000
"""Largest number of rows in a figure, spread over the file."""


def read_folder(path) -> dict:
    """The memory-mapped `logits.npy` and the `y.npy` of a folder."""
    found = {}
    for name in ("logits", "y"):
        file = regular_file(pathlib.Path(path) / f"{name}.npy")
        try:
            found[name] = np.load(
                file,
                mmap_mode="r" if name == "logits" else None,
                allow_pickle=False,
            )
        except (ValueError, OSError) as error:
            raise CommandError(
                f"{file}: a plain array of numbers is needed. Received: {error}"
            ) from error
    logits, y = found["logits"], found["y"]
    if logits.ndim != 2 or logits.dtype.kind not in "iuf":
        raise CommandError(
            f"{path}: `logits` must be numbers of shape (rows, classes). "
            f"Received: shape {logits.shape} of {logits.dtype}"
        )
    if y.dtype.kind not in "biuf" or len(y) != len(logits):
        raise CommandError(
            f"{path}: `y` must have a class number for each row of `logits`, "
            f"{len(logits)}. Received: shape {y.shape} of {y.dtype}"
        )
    return found


class ClassifierTask:
    """Fits recalibrators to a classifier's logits and judges them.

    Memory-mapped logits are read in blocks.

    Args:
        fitted_to: dict of `logits`, `y` (class numbers) and perhaps
            `features`, to fit to.
        judged_on: the same, to judge on.
        graph: the `ClassifierGraph` of the model, or `None`.
        from_logits: whether `logits` are logits, or probabilities.
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
        names = {**METHODS, "auto": "Auto"}
        if self.fitted_to.get("features") is None:
            del names["features"], names["deep"]
        return names

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
            right, belief, nll = [], [], []
            for part, p in self._blocks(recalibrator):
                y = self.judged_on["y"][part]
                for found, values in zip(
                    (right, belief), functions.top_class(y, p), strict=True
                ):
                    found.append(values)
                nll.append(functions.negative_log_likelihood(y, p) * y.size)
            right, belief = np.concatenate(right), np.concatenate(belief)
            self._judged[recalibrator] = right, belief, sum(nll) / len(right)
        return self._judged[recalibrator]

    def _blocks(self, recalibrator, logits=None):
        """Parts of the rows, and their calibrated probabilities."""
        from keras_likelihood.recalibration import GlobalScaling
        from keras_likelihood.recalibration.inputs import blocks

        if recalibrator is None:
            recalibrator = GlobalScaling()
            recalibrator.parameters_ = {"temperature": 1.0}
        logits = self.judged_on["logits"] if logits is None else logits
        features = self.judged_on.get("features")
        if not isinstance(logits, np.memmap):
            p = recalibrator.calibrate(
                logits, features, from_logits=self.from_logits
            )
            yield slice(None), p
            return
        for part in blocks(logits):
            yield (
                part,
                recalibrator.calibrate(
                    logits[part], from_logits=self.from_logits
                ),
            )

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
        """Whether the model is too sure, in a sentence."""
        right, belief, _ = self._by_rows(recalibrator)
        return (
            f"It gives its answers a probability of {belief.mean():.1%} on "
            f"average, and {right.mean():.1%} of them are right."
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

    def draw(self, recalibrator):
        """A Matplotlib figure of the reliability, before and after."""
        from keras_likelihood.plots.calibration import compare_reliability

        y, logits = self.judged_on["y"], self.judged_on["logits"]
        every = 1
        if isinstance(logits, np.memmap):
            every = -(-len(y) // _DRAWN)
            logits = np.array(logits[::every])
        sides = {"before": None, "after": recalibrator}
        return compare_reliability(
            y[::every],
            {
                title: next(self._blocks(one, logits))[1]
                for title, one in sides.items()
            },
        )
