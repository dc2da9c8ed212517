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

    def methods(self) -> dict:
        """Class names of the methods that these data allow."""
        names = dict(METHODS)
        if self.fitted_to.get("features") is None:
            del names["features"], names["deep"]
        return {**names, "auto": "Auto"}

    def fit(self, method: str):
        """Returns the fitted recalibrator of a method."""
        from keras_likelihood import recalibration

        methods = self.methods()
        if method not in methods:
            raise UsageError(
                f"The method {method!r} needs `features` and a classifier. "
                f"Allowed here: {', '.join(methods)}. Received: {method}"
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
        from keras_likelihood.metrics import functions

        p, y = self.probabilities(recalibrator), self.judged_on["y"]
        # One column, or a plain vector, is the probability of yes.
        several = p.ndim > 1 and p.shape[-1] > 1
        predicted = p.argmax(-1) if several else p.reshape(y.shape) > 0.5
        return {
            "NLL": functions.negative_log_likelihood(y, p),
            "ECE": functions.expected_calibration_error(y, p),
            "accuracy": float(np.mean(predicted == y)),
        }

    def probabilities(self, recalibrator):
        """Calibrated probabilities, or those of the model for `None`."""
        recalibrator = recalibrator or self._unchanged()
        return recalibrator.calibrate(
            self.judged_on["logits"],
            self.judged_on.get("features"),
            from_logits=self.from_logits,
        )

    def _unchanged(self):
        """What leaves the probabilities of the model as they are."""
        from keras_likelihood.recalibration import GlobalScaling

        recalibrator = GlobalScaling()
        recalibrator.parameters_ = {"temperature": 1.0}
        return recalibrator

    def _top_class(self, recalibrator):
        """Whether the likeliest class is right, and its probability."""
        from keras_likelihood.metrics.functions import top_class

        return top_class(self.judged_on["y"], self.probabilities(recalibrator))

    def curve(self, recalibrator) -> list[dict]:
        """Confidence and accuracy of the top class, in bins of confidence."""
        right, belief = self._top_class(recalibrator)
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
        right, belief = self._top_class(recalibrator)
        return (
            f"It gives its answers a probability of {belief.mean():.1%} on "
            f"average, and {right.mean():.1%} of them are right."
        )

    def calibrated_model(self, recalibrator):
        """The Keras model with calibrated probabilities as output."""
        return self._graph.extend(recalibrator)

    def arrays(self, recalibrator) -> dict:
        """The arrays that are written if there is no model."""
        return {"probabilities": self.probabilities(recalibrator)}

    def draw(self, recalibrator):
        """A Matplotlib figure of the reliability, before and after."""
        from keras_likelihood.plots.calibration import compare_reliability

        return compare_reliability(
            self.judged_on["y"],
            {
                "before": self.probabilities(None),
                "after": self.probabilities(recalibrator),
            },
        )
