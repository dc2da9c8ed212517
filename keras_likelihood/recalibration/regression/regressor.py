"""What all recalibrators of regressors have in common."""

import time

import keras
import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.metrics.functions import calibration_error
from keras_likelihood.reading import ModelGraph
from keras_likelihood.recalibration import inputs
from keras_likelihood.recalibration.regression.residual_shape import (
    ResidualShape,
    fit_shape,
)

_CHOICES = ("auto", "normal", "student_t")


class RegressorRecalibrator:
    """Base of the recalibrators of regressors.

        y ~ location + scale * residual,    scale = base * s(x)

    A subclass fits the relative scale s(x). The residuals are normal, or
    Student's t if the calibration data have heavier tails.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.

    Attributes set by fitting:
        parameters_: dict of the fitted values.
        report_: dict of NLL and CAL on the data given, `_before` and
            `_after`, and `seconds`. Without a scale, before means scale 1.
        model: Keras model with the distribution's parameters as output (after
            `fit`). It is a copy. Training it does not change the original.
    """

    uses_features = False

    def __init__(self, *, likelihood: str = "auto"):
        if likelihood not in _CHOICES:
            raise ValueError(
                f"`likelihood` must be one of {_CHOICES}. "
                f"Received: {likelihood!r}"
            )
        self.likelihood = likelihood

    def fit(
        self,
        model,
        x,
        y=None,
        *,
        sample_weight=None,
        features: str | None = None,
        trainable: bool = False,
        batch_size: int = 32,
    ):
        """Recalibrates a trained Keras regressor.

        Args:
            model: a `keras.Model` or the path of a `.keras` file, with a
                prediction or `(prediction, scale)` as output. A scale that the
                loss of a `LikelihoodModel` learned is used.
            x: inputs as for `model.predict`, or an iterable of `(x, y)` or
                `(x, y, sample_weight)` batches.
            y: targets. Leave them out for batches.
            sample_weight: one weight for each example, or `None`.
            features: name of the layer whose output are the features.
                Defaults to the input of the last layer.
            trainable: whether the layers of the original may be trained in
                the result. Defaults to False: they are frozen.
            batch_size: the batch size of the prediction.

        Returns:
            `self`, with `model` set.
        """
        graph = ModelGraph(model, x, batched=y is None, features=features)
        tensors = {"prediction": graph.prediction}
        if graph.prediction.shape[1:] != (1,):
            raise ValueError(
                "`model` must have as output a prediction (batch, 1), alone "
                "or with its scale. "
                f"Received: a prediction {tuple(graph.prediction.shape)}"
            )
        _refuse_other_targets(graph.likelihood)
        scale = graph.parameters.get("scale")
        if isinstance(scale, keras.KerasTensor):
            tensors["scale"] = scale
        if self.uses_features:
            tensors["features"] = graph.features()
        found, y, weight = graph.run(tensors, x, y, sample_weight, batch_size)
        if scale is not None and "scale" not in found:
            found["scale"] = np.full(len(y), np.squeeze(scale))
        self.fit_arrays(
            found["prediction"],
            y,
            scale=found.get("scale"),
            features=found.get("features"),
            sample_weight=weight,
        )
        self.model = graph.extend(
            tensors,
            lambda: self._graph(
                graph.prediction, scale, tensors.get("features")
            ),
            trainable=trainable,
        )
        return self

    def fit_arrays(
        self, prediction, y, *, scale=None, features=None, sample_weight=None
    ):
        """Recalibrates from a regressor's outputs.

        Args:
            prediction: `(n,)` or `(n, 1)`.
            y: targets, `(n,)` or `(n, 1)`.
            scale: predicted scale, `> 0`, or `None` for a point prediction.
            features: `(n, columns)`. The default is the prediction itself.
            sample_weight: weights `>= 0`, `(n,)`, or `None`.

        Returns:
            `self`.
        """
        started = time.perf_counter()
        location, base = _location_and_scale(prediction, scale)
        y = _column(y, "y")
        if len(y) != len(location):
            raise ValueError(
                "`prediction` and `y` must be of equal length. "
                f"Received: {len(location)} and {len(y)}"
            )
        weight = inputs.as_weight(sample_weight, (len(y),))
        weight = np.ones(len(y)) if weight is None else weight
        z = (y - location) / base
        x = self._columns(location, features)
        relative = self._fit_scale(z, x, weight)
        shape = fit_shape(z / relative, weight, self.likelihood)
        self.parameters_ = {
            **self.parameters_,
            "likelihood": shape.likelihood,
            "shift": shape.shift,
            "factor": shape.factor,
        }
        if shape.df is not None:
            self.parameters_["df"] = shape.df
        before = ResidualShape("normal", 0.0, 1.0)
        self.report_ = {
            **_scores(before, z, base, weight, "before"),
            **_scores(shape, z / relative, base * relative, weight, "after"),
            "seconds": time.perf_counter() - started,
        }
        return self

    def calibrate(self, prediction, *, scale=None, features=None):
        """Returns the calibrated distribution, a `Likelihood`.

        Args:
            prediction, scale, features: as in `fit_arrays`.

        Returns:
            A `Normal` or `StudentT` of shape `(n,)`, with `cdf`, `quantile`,
            `interval` and `nll`.
        """
        if not hasattr(self, "parameters_"):
            raise ValueError(
                f"{type(self).__name__} must be fitted before `calibrate`. "
                "Received: a recalibrator without `parameters_`"
            )
        location, base = _location_and_scale(prediction, scale)
        p = self.parameters_
        predicted = base * self._relative(self._columns(location, features))
        values = {"scale": _f64(predicted * p["factor"])}
        if "df" in p:
            values["df"] = p["df"]
        kind = likelihoods.get(p["likelihood"])
        return kind(_f64(location + predicted * p["shift"]), **values)

    def _columns(self, location, features):
        if not self.uses_features:
            return None
        if features is None:
            return location[:, None]
        return inputs.as_features(features, (len(location),)).astype("float64")

    def _graph(self, prediction, scale, features):
        """Keras tensors of the distribution's parameters, in its order."""
        p = self.parameters_
        # This makes it float32 even if nothing else changes it.
        prediction = keras.layers.Identity(name="prediction")(prediction)
        if not isinstance(scale, keras.KerasTensor):
            # A constant with one entry for each example of the batch.
            constant = 1.0 if scale is None else float(np.squeeze(scale))
            ones = keras.layers.Rescaling(0.0, constant, name="unit_scale")
            scale = ones(prediction)
        relative = self._relative_graph(features)
        if relative is not None:
            scale = keras.layers.Multiply(name="relative")([scale, relative])
        unit = p["relative_scale"]
        final = keras.layers.Rescaling(unit * p["factor"], name="scale")(scale)
        if p["shift"]:
            move = keras.layers.Rescaling(unit * p["shift"], name="shift")
            shift = move(scale)
            prediction = keras.layers.Add(name="location")([prediction, shift])
        if "df" not in p:
            return [prediction, final]
        constant = keras.layers.Rescaling(0.0, p["df"], name="df")
        return [prediction, constant(scale), final]

    def _fit_scale(self, z, x, weight):
        """Sets `parameters_`; returns the relative scale of every row."""
        raise NotImplementedError

    def _relative(self, x):
        raise NotImplementedError

    def _relative_graph(self, features):
        """The Keras tensor of `relative / relative_scale`, `None` for 1."""
        return None


def _scores(shape, z, scale, weight, when):
    nll = np.average(shape.nll(z) + np.log(scale), weights=weight)
    cal = calibration_error(shape.cdf(z))
    return {f"nll_{when}": float(nll), f"cal_{when}": cal}


def _f64(values):
    # JAX computes in float32 by default.
    wide = keras.backend.backend() != "jax"
    return np.asarray(values, dtype="float64" if wide else "float32")


def _column(values, name):
    values = np.asarray(values, dtype="float64")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise ValueError(
            f"`{name}` must be finite and of shape (n,) or (n, 1). "
            f"Received: shape {values.shape}"
        )
    return values


def _location_and_scale(prediction, scale):
    location = _column(prediction, "prediction")
    if scale is None:
        return location, np.ones_like(location)
    base = _column(scale, "scale")
    if len(base) != len(location) or not (base > 0).all():
        raise ValueError(
            "`scale` must be > 0 and of the prediction's length. "
            f"Received: {len(base)} values from {base.min():.3g}"
        )
    return location, base


def _refuse_other_targets(likelihood):
    if likelihood is None or issubclass(likelihood, likelihoods.LocationScale):
        return
    raise ValueError(
        "`model` must have a stock Keras loss or the loss of a "
        "`LocationScale` likelihood, such as normal. For other likelihoods "
        "and for ensembles use "
        "`keras_likelihood.recalibration.regression.Conformal`. "
        f"Received: {likelihood.name()}"
    )
