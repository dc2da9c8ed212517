"""Recalibration of a regressor, as commands and pages show it."""

import numpy as np

from keras_likelihood.commands.command_error import UsageError

METHODS = {
    "global": "GlobalScaling",
    "linear": "LinearScaling",
    "deep": "DeepScaling",
}


class RegressorTask:
    """Fits recalibrators to a regressor's predictions and judges them.

    The data are dicts of `own`, the predicted distribution, `y`, `features`
    (or `None`) and `has_scale`, whether the scale of `own` was predicted.
    `refit` fits a recalibrator to the model itself, if there is one.
    """

    name = "regression"
    scores = ("NLL", "CAL", "in 90 % band", "band width")
    gap = "CAL"
    expected, observed = "promised", "observed"

    def __init__(self, fitted_to, judged_on, refit=None):
        self.fitted_to = fitted_to
        self.judged_on = judged_on
        self.calibrated_model = refit

    def methods(self) -> dict:
        """Class names of the methods that these data allow."""
        return {**METHODS, "auto": "Auto"}

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
