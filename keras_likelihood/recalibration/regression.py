"""Recalibration of trained regressors."""

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
    to_float64,
)
from keras_likelihood.metrics.functions import calibration_error
from keras_likelihood.reading.graphs import RegressorGraph, as_tensor
from keras_likelihood.reading.targets import (
    as_column,
    as_features,
    check_fitted,
    location_and_scale,
    widest,
)
from keras_likelihood.recalibration import network
from keras_likelihood.recalibration.inputs import (
    FOLDS,
    FeatureBasis,
    random_folds,
)
from keras_likelihood.recalibration.penalised_fit import fit_by_evidence
from keras_likelihood.recalibration.residual_shape import (
    ResidualShape,
    fit_shape,
)
from keras_likelihood.serving import LikelihoodPrediction, RecalibratedRegressor

__all__ = [
    "AutoRescaling",
    "DeepRescaling",
    "GlobalRescaling",
    "LinearRescaling",
    "RegressorRecalibrator",
]

_OFFSET = 0.01
"""Offset of the softplus of a predicted scale."""
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
        report_: dict of NLL and CAL on the calibration data, `_before` (with a
            scale of 1 if the model has none) and `_after`, and `seconds`.
        model: a `RecalibratedRegressor` (after `fit`) with the distribution's
            parameters as output. It is a copy.
    """

    likelihood: str = "auto"
    uses_features: ClassVar[bool | str] = False
    parameters_: dict[str, Any] = dataclasses.field(init=False, repr=False)

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
        options: dict[str, Any] = {"batched": y is None, "features": features}
        graph = RegressorGraph(
            model, x, with_features=self.uses_features, **options
        )
        distribution, columns, y, weight = graph.outputs(
            x, y, sample_weight, batch_size
        )
        self.fit_arrays(distribution, y, features=columns, sample_weight=weight)
        self.model = graph.extend(
            lambda: self._graph(graph), RecalibratedRegressor
        )
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
        """Recalibrates from a regressor's outputs; returns self.

        Args:
            prediction: `(n,)` or `(n, 1)`, or a `LocationScale` likelihood of
                this shape, as from `predict_distribution`.
            y: targets, `(n,)` or `(n, 1)`.
            scale: predicted scale of a normal regressor, `> 0`, or `None` for
                a point prediction.
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

    fit_distribution = fit_arrays

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
        if keeps:
            factor = own.best_factor(z / relative, weight)
            shape = dataclasses.replace(own, factor=factor)
        else:
            shape = fit_shape(z / relative, weight, self.likelihood)
            self.parameters_ |= shape.parameters
        self.parameters_["likelihood"] = shape.likelihood
        self.parameters_["factor"] = shape.factor
        return relative, shape

    def _fit_network(
        self, z: Array, x: Any, weight: Array, own: ResidualShape
    ) -> None:
        """Adds the `network` of a predicted scale to `parameters_`."""

    def _relative(self, x: Any) -> Any:
        """The relative scale, of every row of `x` if it is predicted."""
        p = self.parameters_
        if "network" not in p:
            return p["relative_scale"]
        predicted = network.predicted_parameter(x, p["network"], _OFFSET)
        predicted = predicted[:, 0] if isinstance(x, np.ndarray) else predicted
        return p["relative_scale"] * predicted

    def calibrate(
        self, prediction: Any, *, scale: Any = None, features: Any = None
    ) -> Any:
        """Returns the calibrated distribution, a `LocationScale` of `(n,)`.

        Arguments are as in `fit_arrays`.
        """
        check_fitted(self, "parameters_", "calibrate")
        location, base, own = _parts_of(prediction, scale)
        p = self.parameters_
        kind = likelihoods.get(p["likelihood"])
        predicted = base * self._relative(self._columns(location, features))
        values = {"scale": widest(predicted * p["factor"])}
        for name in [q.name for q in kind.parameters if q.name != "scale"]:
            value: Any = p.get(name, own.parameters.get(name))
            allowed = f"a distribution with the {name} of every example"
            has_value = value is not None
            check_argument("prediction", "an array", has_value, allowed)
            values[name] = widest(value) if np.ndim(value) else value
        return kind(widest(location), **values).as_numpy()

    def _columns(self, location: Array, features: Any) -> Array | None:
        if not self.uses_features:
            return None
        if features is None:
            return location[:, None]
        return as_features(features, (len(location),)).astype("float64")

    def _graph(self, graph: RegressorGraph) -> list[Tensor]:
        """Keras tensors of the distribution's parameters, in its order."""
        p = self.parameters_
        kind = likelihoods.get(p["likelihood"])
        # This casts the prediction to float32.
        prediction = keras.layers.Identity(name="location")(graph.prediction)
        scale = as_tensor(prediction, graph.values["scale"], "unit_scale")
        # So does this with the scale.
        scale = keras.layers.Rescaling(p["factor"], name="factor")(scale)
        scale = scale * self._relative(graph.tensors.get("features"))
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

    The factor s maximises the likelihood. Arguments are as in
    `RegressorRecalibrator`.

    ```python
    fitted = GlobalRescaling().fit_arrays(prediction, y)
    lower, upper = fitted.calibrate(test_prediction).interval(0.9)
    ```
    """


@dataclasses.dataclass(kw_only=True, eq=False)
class LinearRescaling(RegressorRecalibrator):
    """Predicts each example's scale from its features.

        scale = g * f(x w + c) * base

    with `g` the factor of GlobalRescaling and `f` the shifted softplus. The
    weights have a prior around zero, whose strength maximises the marginal
    likelihood.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.
    """

    uses_features = True

    def _fit_network(
        self, z: Array, x: Any, weight: Array, own: ResidualShape
    ) -> None:
        def by_scale(scale: Array, rows: Any) -> tuple[Array, Array, Array]:
            ratio = z[rows] / scale
            loss, slope = own.at(rows).loss_and_slope(ratio)
            by_log = 1 - ratio * slope
            # Fisher information of log s, which is 2 for a normal density.
            information: Any = 2.0
            if own.likelihood != "normal":
                information = np.average(by_log**2, weights=weight[rows])
            return loss + np.log(scale), by_log / scale, information / scale**2

        basis = FeatureBasis(x, weight)
        objective = network.LinkedObjective(
            by_scale, {"scale": basis(x)}, _OFFSET, weight
        )
        first, bias, *rest = self._weights(objective, x)
        kernel, shift = basis.to_raw(first)
        self.parameters_["network"] = [kernel, bias + shift, *rest]

    def _weights(
        self, objective: network.LinkedObjective, raw: Array
    ) -> list[Array]:
        """The `[kernel, bias, ...]` that minimise an objective."""
        weights, strengths = fit_by_evidence(objective)
        self.parameters_["prior_precision"] = strengths["scale"]
        return [weights["scale"][:, None], weights["free"]]


@dataclasses.dataclass(kw_only=True, eq=False)
class DeepRescaling(LinearRescaling):
    """Predicts each example's scale by a network on its features.

        scale = g * f(network(x)) * base

    It starts as `GlobalRescaling`. The number of iterations is chosen on
    held-out folds.

    Args:
        likelihood: as in `LinearRescaling`.
        hidden: sizes of the hidden layers. Defaults to `(16,)`.
        seed: the random seed of the initial weights and the folds.
    """

    hidden: tuple[int, ...] = (16,)
    seed: int = 0

    def _weights(
        self, objective: network.LinkedObjective, raw: Array
    ) -> list[Array]:
        parts, self.parameters_["iterations"] = network.fit_network(
            objective, raw, self.hidden, self.seed
        )
        return parts


_MOST_ROWS = 3000
"""Largest number of rows for the choice."""
_METHODS: dict[str, type[RegressorRecalibrator]] = {
    c.__name__: c for c in (GlobalRescaling, LinearRescaling, DeepRescaling)
}


@dataclasses.dataclass(kw_only=True, eq=False)
class AutoRescaling(RegressorRecalibrator):
    """Chooses between `GlobalRescaling`, `LinearRescaling` and `DeepRescaling`.

    The method with the lowest NLL on three held-out folds is fitted to all
    rows.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.
        seed: the random seed of the folds. Defaults to 0.

    Attributes set by fitting:
        method_: name of the chosen class.
        cross_validated_nll_: dict of names to the NLL on held-out rows.
    """

    seed: int = 0
    uses_features = "optional"

    def _fit_residuals(
        self, z: Array, x: Any, weight: Array, own: ResidualShape
    ) -> tuple[Any, ResidualShape]:
        rows = np.random.default_rng(self.seed).permutation(len(z))
        rows = np.sort(rows[:_MOST_ROWS])
        folds = random_folds(x[rows], z[rows, None], FOLDS, self.seed)
        scores: dict[str, float] = {}
        self.cross_validated_nll_ = scores
        for name, method in _METHODS.items():
            losses = np.empty(len(rows))
            for held_out in folds:
                kept, out = np.delete(rows, held_out), rows[held_out]
                member = method(likelihood=self.likelihood)
                _, shape = member._fit_residuals(
                    z[kept], x[kept], weight[kept], own.at(kept)
                )
                if self._keeps(own):
                    # Parameters of the model differ between rows.
                    factor = shape.factor
                    shape = dataclasses.replace(own.at(out), factor=factor)
                relative = member._relative(x[out])
                nll = shape.nll(z[out] / relative) + np.log(relative)
                losses[held_out] = nll
            scores[name] = float(np.average(losses, weights=weight[rows]))
        self.method_ = min(scores, key=lambda name: scores[name])
        member = _METHODS[self.method_](likelihood=self.likelihood)
        fitted = member._fit_residuals(z, x, weight, own)
        self.parameters_ = member.parameters_
        return fitted


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
