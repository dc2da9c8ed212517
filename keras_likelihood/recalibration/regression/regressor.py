"""Base class of the recalibrators of regressors."""

import dataclasses
import time
from typing import Any, ClassVar, Self

import keras
import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.checks import (
    as_weight,
    check_argument,
    finite_numbers,
    to_float64,
)
from keras_likelihood.metrics.functions import calibration_error
from keras_likelihood.recalibration import inputs, network
from keras_likelihood.recalibration.graphs import RegressorGraph, as_tensor
from keras_likelihood.recalibration.regression.residual_shape import (
    ResidualShape,
    fit_shape,
    widest,
)
from keras_likelihood.serving import RecalibratedRegressor
from keras_likelihood.serving.layers import LikelihoodPrediction

_CHOICES = ("auto", "normal", "student_t")


@dataclasses.dataclass(kw_only=True, eq=False)
class RegressorRecalibrator:
    """Base class of the recalibrators of regressors.

        y ~ location + scale * residual,    scale = base * s(x)

    s(x) is one factor, times the output of a network if a subclass fits one
    (`_fit_network`). Residuals follow the likelihood of the model. If that is
    normal or unknown, they are normal, or Student's t if the calibration data
    have heavier tails.

    Args:
        likelihood: `"auto"` (default), or `"normal"` or `"student_t"` to
            replace the likelihood of the model.

    Attributes set by fitting:
        parameters_: dict of the fitted values.
        report_: dict of NLL and CAL on the calibration data, `_before` and
            `_after`, and `seconds`. "Before" is the model's own distribution,
            with a scale of 1 if it has none.
        model: a `RecalibratedRegressor` (after `fit`) with the distribution's
            parameters as output. It is a copy, so training it does not change
            the original.
    """

    likelihood: str = "auto"
    uses_features: ClassVar[bool | str] = False
    model_class: ClassVar = RecalibratedRegressor
    parameters_: dict[str, Any] = dataclasses.field(init=False, repr=False)
    offset = 0.01
    """Offset of the softplus of a predicted scale."""

    def __post_init__(self) -> None:
        given, allowed = self.likelihood, f"one of {_CHOICES}"
        check_argument("likelihood", given, given in _CHOICES, allowed)

    def fit(
        self,
        model: Any,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        features: str | None = None,
        batch_size: int = 32,
    ) -> Self:
        """Recalibrates a Keras regressor; sets `model` and returns self.

        Args:
            model: a `keras.Model` or the path of a `.keras` file, with a
                prediction, or a prediction and the parameters of a
                `LocationScale` likelihood, as output. Parameters learned by
                the loss of a `LikelihoodModel` are used.
            x, y, sample_weight, batch_size: as in `fit` of
                `kl.recalibration.GlobalScaling`.
            features: name of the layer whose output is used as features.
                Defaults to the input of the last layer.
        """
        graph = RegressorGraph(
            model,
            x,
            batched=y is None,
            features=features,
            with_features=self.uses_features,
        )
        distribution, columns, y, weight = graph.outputs(
            x, y, sample_weight, batch_size
        )
        options = {"features": columns, "sample_weight": weight}
        self.fit_distribution(distribution, y, **options)
        self.model = graph.extend(self)
        return self

    def fit_arrays(
        self,
        prediction: Any,
        y: Any,
        *,
        scale: Any = None,
        features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Recalibrates from a normal regressor's outputs; returns self.

        Args:
            prediction: `(n,)` or `(n, 1)`.
            y: targets, `(n,)` or `(n, 1)`.
            scale: predicted scale, `> 0`, or `None` for a point prediction.
            features: `(n, columns)`. Defaults to the prediction.
            sample_weight: weights `>= 0`, `(n,)`, or `None`. Rows of weight 0
                are ignored.
        """
        started = time.perf_counter()
        location, base, own = _parts_of(prediction, scale)
        fits, allowed = len(y) == len(location), f"{len(location)} targets"
        check_argument("y", len(y), fits, f"{allowed}, one per prediction")
        weight = as_weight(sample_weight, location.shape)
        x = self._columns(location, features)
        kept = weight > 0
        weight, base, own = weight[kept], base[kept], own.at(kept)
        x = None if x is None else x[kept]
        z = (as_column(np.asarray(y)[kept], "y") - location[kept]) / base
        relative, shape = self._fit_residuals(z, x, weight, own)
        self.report_ = {
            **_scores(own, z, base, weight, "before"),
            **_scores(shape, z / relative, base * relative, weight, "after"),
            "seconds": time.perf_counter() - started,
        }
        return self

    def fit_distribution(
        self, distribution: Any, y: Any, **options: Any
    ) -> Self:
        """Recalibrates a predicted distribution; returns self.

        Args:
            distribution: a `LocationScale` likelihood of shape `(n,)` or
                `(n, 1)`, as from `predict_distribution`.
            y: targets, `(n,)` or `(n, 1)`.
            **options: `features` and `sample_weight`, as in `fit_arrays`.
        """
        return self.fit_arrays(distribution, y, **options)

    def _keeps(self, own: ResidualShape) -> bool:
        """Whether the likelihood of the model is kept."""
        return self.likelihood == "auto" and own.likelihood != "normal"

    def _fit_residuals(
        self, z: Array, x: Any, weight: Array, own: ResidualShape
    ) -> tuple[Any, ResidualShape]:
        """Sets `parameters_`; returns the relative scale and the shape."""
        keeps = self._keeps(own)
        start = own if keeps else ResidualShape()
        base = start.best_factor(z, weight)
        self.parameters_ = {"relative_scale": base}
        self._fit_network(z / base, x, weight, start)
        relative = self._relative(x)
        shape = fit_shape(z / relative, weight, self.likelihood, own)
        self.parameters_ |= {
            "likelihood": shape.likelihood,
            "factor": shape.factor,
        }
        if not keeps:
            self.parameters_ |= shape.parameters
        return relative, shape

    def _fit_network(
        self, z: Array, x: Any, weight: Array, own: ResidualShape
    ) -> None:
        """Adds the `network` of a predicted scale to `parameters_`."""

    def _relative(self, x: Any) -> Any:
        """The relative scale, of every row if it is predicted."""
        p = self.parameters_
        if "network" not in p:
            return p["relative_scale"]
        linear, _ = network.run_network(p["network"], x)
        predicted, _ = network.shifted_softplus(linear, self.offset)
        return p["relative_scale"] * predicted

    def calibrate(
        self, prediction: Any, *, scale: Any = None, features: Any = None
    ) -> Any:
        """Returns the calibrated distribution, a `LocationScale` of `(n,)`.

        Args:
            prediction: a `LocationScale` likelihood, or as in `fit_arrays`.
            scale, features: as in `fit_arrays`.
        """
        inputs.check_fitted(self, "parameters_", "calibrate")
        location, base, own = _parts_of(prediction, scale)
        p = self.parameters_
        kind = likelihoods.get(p["likelihood"])
        predicted = base * self._relative(self._columns(location, features))
        values = {"scale": widest(predicted * p["factor"])}
        for name in [q.name for q in kind.parameters if q.name != "scale"]:
            value = p.get(name, own.parameters.get(name))
            if value is None:
                raise ValueError(
                    f"`prediction` must be a distribution with the {name} of "
                    "every example, as predicted by the model. Received: an "
                    "array"
                )
            values[name] = widest(value) if np.ndim(value) else value
        return kind(widest(location), **values).as_numpy()

    def _columns(self, location: Array, features: Any) -> Array | None:
        if not self.uses_features:
            return None
        if features is None:
            return location[:, None]
        return inputs.as_features(features, (len(location),)).astype("float64")

    def _graph(self, graph: RegressorGraph) -> list[Tensor]:
        """Keras tensors of the distribution's parameters, in its order."""
        p = self.parameters_
        kind = likelihoods.get(p["likelihood"])
        # This casts the prediction to float32.
        prediction = keras.layers.Identity(name="location")(graph.prediction)
        scale = as_tensor(prediction, graph.values["scale"], "unit_scale")
        if "network" in p:
            features, parts = graph.features, p["network"]
            relative = network.predicted_parameter(features, parts, self.offset)
            scale = keras.layers.Multiply(name="relative")([scale, relative])
        factor = p["relative_scale"] * p["factor"]
        scale = keras.layers.Rescaling(factor, name="factor")(scale)
        values = {**graph.values, **p, "scale": scale}
        keep = LikelihoodPrediction(kind.name(), name="prediction")
        outputs = [keep(prediction)]
        for name in [parameter.name for parameter in kind.parameters]:
            value = as_tensor(prediction, values[name], f"constant_{name}")
            outputs.append(keras.layers.Identity(name=name)(value))
        return outputs


class GlobalRescaling(RegressorRecalibrator):
    """Multiplies a regressor's scale by one factor.

        scale = s * base

    The factor s maximises the likelihood. For normal residuals this is
    `s^2 = mean((y - prediction)^2 / base^2)`.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.

    ```python
    fitted = GlobalRescaling().fit_arrays(prediction, y)
    lower, upper = fitted.calibrate(test_prediction).interval(0.9)
    ```
    """


def as_column(values: Any, name: str) -> Array:
    """Returns finite numbers `(n,)`, as float64, from `(n,)` or `(n, 1)`."""
    values = finite_numbers(values, f"`{name}`")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(
            f"`{name}` must be of shape (n,) or (n, 1). "
            f"Received: shape {values.shape}"
        )
    return values


def location_and_scale(prediction: Any, scale: Any) -> tuple[Array, Array]:
    """Predictions and their scales `(n,)`; `None` means a scale of 1."""
    location = as_column(prediction, "prediction")
    if scale is None:
        return location, np.ones_like(location)
    base = as_column(scale, "scale")
    if len(base) != len(location) or not (base > 0).all():
        raise ValueError(
            "`scale` must be > 0 and of the prediction's length. "
            f"Received: {len(base)} values from {base.min():.3g}"
        )
    return location, base


def _parts_of(
    prediction: Any, scale: Any = None
) -> tuple[Array, Array, ResidualShape]:
    """Location, scale and shape of the residuals of a prediction."""
    if not isinstance(prediction, likelihoods.Likelihood):
        return *location_and_scale(prediction, scale), ResidualShape()
    if not isinstance(prediction, likelihoods.LocationScale):
        raise ValueError(
            "A model must have a stock Keras loss or the loss of a "
            "`LocationScale` likelihood, such as normal. For other "
            "likelihoods of one number and for ensembles use "
            "`keras_likelihood.conformal.ConformalIntervals`. "
            f"Received: {prediction.name()}"
        )
    arrays = {k: to_float64(v) for k, v in prediction.values().items()}
    location = as_column(arrays.pop("prediction"), "prediction")
    values = {
        k: np.broadcast_to(v.ravel(), location.shape) for k, v in arrays.items()
    }
    _, scale = location_and_scale(location, values.pop("scale"))
    return location, scale, ResidualShape(prediction.name(), parameters=values)


def _scores(
    shape: ResidualShape, z: Array, scale: Array, weight: Array, when: str
) -> dict[str, float]:
    nll = np.average(shape.nll(z) + np.log(scale), weights=weight)
    cal = calibration_error(shape.cdf(z), sample_weight=weight)
    return {f"nll_{when}": float(nll), f"cal_{when}": cal}
