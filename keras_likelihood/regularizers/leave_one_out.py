"""Scales of a linear model's prior, by approximate leave-one-out."""

import itertools
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.gradients import value_and_gradient
from keras_likelihood.backend.private import producer
from keras_likelihood.backend.training_rows import Rows
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.checks import to_float64
from keras_likelihood.regularizers.held_out_slopes import loss_without_penalties
from keras_likelihood.regularizers.priors import learned_parameters

_LARGEST, _MOST_ROWS = 1500, 2000
_ROUNDS = 8


class Fit(NamedTuple):
    """A penalized fit and its score."""

    weights: Array
    """`(columns, outputs)`, with the intercept last if there is one."""
    parameters: Array
    """Unconstrained values of the parameters of the loss."""
    scales: Array
    freedom: float
    """Effective number of weights."""
    curvature: Array
    """Diagonal of the Hessian of the NLL for the kernel."""
    score: float
    """NLL of the leave-one-out predictions."""


class LinearModel:
    """A model whose output is linear in the weights that it trains.

    It may have an activation and any loss. The leave-one-out predictions follow
    from one Newton step off the fit with all rows (Rad and Maleki, 2020). For a
    normal target they are exact, and their squared error is PRESS. For L1 the
    step moves the active weights (Wang et al., 2018). Learned parameters of the
    loss follow the fit, with the noise corrected as by `NoisePrior`.

    A prior with one scale has the scale of the best score on a grid. With a
    scale for each weight, each follows the size of its weight from there,

        L2: s_j^2 = (w_j^2 + c^2) / A,    c^2 = A / (8 h)
        L1: b_j   = (|w_j| + c) / A,      c^2 = A / h

    with the curvature `h` of the NLL, and the gain `A` in likelihood that a
    weight needs to be on (for L2 a quarter of it). With this `c` weights leave
    zero continuously.
    """

    def __init__(self, model: Any, layer: Any, features: Any) -> None:
        self._model, self._layer, self._features = model, layer, features
        self._prior = layer.kernel.regularizer
        learned = learned_parameters(model)
        self._noise = learned.get("scale")
        self._learned = [p.unconstrained for p in learned.values()]
        self._gradients: Any = compiled(self._value_and_gradients)

    @classmethod
    def of(cls, model: Any, weights: list[Any]) -> "LinearModel | None":
        """The model, or `None` if it is not linear or too large."""
        if not getattr(model, "inputs", None) or len(model.outputs) != 1:
            return None
        layer, *_ = producer(model.outputs[0])
        is_dense = type(layer) is keras.layers.Dense
        if not is_dense or len(weights) != 1 or layer.kernel is not weights[0]:
            return None
        rows, columns = layer.kernel.shape
        learned = [p.unconstrained for p in learned_parameters(model).values()]
        own = {id(v) for v in [*layer.trainable_variables, *learned]}
        if (
            getattr(model, "data_parameters", None)
            or any(id(v) not in own for v in model.trainable_variables)
            or (layer.use_bias and layer.bias.regularizer)
            or any(np.prod(v.shape) > 1 for v in learned)
            or layer.kernel.constraint is not None
            or len(layer.input.shape) != 2
            or (rows + 1) * columns > _LARGEST
        ):
            return None
        features = None
        if layer.input is not model.inputs[0]:
            features = keras.Model(model.input, layer.input)
            if _is_random(features):
                return None
        return cls(model, layer, features)

    def choose_scale(self, rows: Rows, terms_per_row: float) -> None:
        """Sets the scales, and what was measured, in the prior."""
        self._use(rows.draw(_MOST_ROWS), terms_per_row)
        best = self._best_uniform()
        prior = self._prior
        if int(np.prod(prior.log_scale.shape)) > 1:
            best = self._reweighted(best)
        if not np.isfinite(best.score):
            return
        optimizer = getattr(self._model, "optimizer", None)
        if optimizer is not None and int(optimizer.iterations.numpy()) == 0:
            self._start_from(best)
        prior.set_scale(best.scales)
        prior.freedom.assign(best.freedom)
        free = max(1.0 - best.freedom / self._terms, 0.05)
        prior.log_precision.assign(np.log(best.curvature.mean() * free))

    def _start_from(self, fit: Fit) -> None:
        # A learned noise that starts too large would shrink all weights.
        rows = self._layer.kernel.shape[0]
        self._layer.kernel.assign(fit.weights[:rows])
        if self._layer.use_bias:
            self._layer.bias.assign(fit.weights[rows])
        for variable, value in zip(self._learned, fit.parameters, strict=True):
            variable.assign(np.full(variable.shape, value))

    def _use(self, rows: dict[str, Any], terms_per_row: float) -> None:
        x = rows.pop("x")
        if self._features is not None:
            x = self._features(x, training=False)
        x = to_float64(keras.tree.flatten(x)[0])
        if self._layer.use_bias:
            x = np.hstack([x, np.ones((len(x), 1))])
        self._x = x
        self._terms = len(x) * terms_per_row
        self._rows = keras.tree.map_structure(ops.convert_to_tensor, rows)
        rows, columns = self._layer.kernel.shape
        self._penalized = np.arange(x.shape[1] * columns) < rows * columns

    def _value_and_gradients(
        self, rows: Any, z: Tensor, freedom: Tensor, parameters: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        def value(z: Tensor, parameters: Tensor) -> Tensor:
            # Penalties of a stock model are added and subtracted again.
            own = self._layer.trainable_variables
            mapping = [(v, ops.convert_to_tensor(v)) for v in own]
            mapping += [
                (v, ops.reshape(parameters[i], v.shape))
                for i, v in enumerate(self._learned)
            ]
            with keras.StatelessScope(state_mapping=mapping):
                output = self._layer.activation(z)
                nll = loss_without_penalties(self._model, rows, output)
                nll = ops.cast(nll, "float32") * self._terms
                if self._noise is not None:
                    log_noise = ops.mean(ops.log(self._noise.value()))
                    nll = nll - freedom * ops.cast(log_noise, "float32")
                return nll

        return value_and_gradient(value, [z, parameters])

    def _nll(
        self, z: Array, parameters: Array, freedom: float = 0.0
    ) -> tuple[float, Array, Array]:
        """The NLL, its gradients for `z` and for the parameters."""
        # A zero takes the place of no parameters.
        given = z, freedom, [*parameters, 0.0]
        tensors = (ops.convert_to_tensor(a, "float32") for a in given)
        value, slopes = self._gradients(self._rows, *tensors)
        slope, others = map(to_float64, slopes)
        return float(ops.convert_to_numpy(value)), slope, others[:-1]

    def _curvatures(self, z: Array, parameters: Array) -> Array:
        """Second derivatives for the outputs of each row, `(n, k, k)`."""
        step = 0.01 * max(1.0, np.abs(z).max())
        columns = []
        for unit in step * np.eye(z.shape[1]):
            up, down = (self._nll(z + d, parameters)[1] for d in (unit, -unit))
            columns.append((up - down) / (2 * step))
        found = np.stack(columns, axis=2)
        values, vectors = np.linalg.eigh(0.5 * (found + found.swapaxes(1, 2)))
        scaled = vectors * np.maximum(values, 0.0)[:, None]
        return np.asarray(scaled @ vectors.swapaxes(1, 2))

    def _fit_parameters(
        self, z: Array, parameters: Array, freedom: float, rounds: int = 10
    ) -> tuple[Array, float]:
        """Learned parameters of the loss at these outputs, and the NLL."""

        def nll(at: Array) -> tuple[float, Array]:
            value, _, slope = self._nll(z, at, freedom)
            return value, slope

        value, slope = nll(parameters)
        for _ in range(rounds if parameters.size else 0):
            hessian = [
                (nll(parameters + d)[1] - nll(parameters - d)[1]) / 0.02
                for d in 0.01 * np.eye(parameters.size)
            ]
            values, vectors = np.linalg.eigh(np.array(hessian))
            values = np.maximum(np.abs(values), 1e-3 * self._terms)
            move = -vectors @ (vectors.T @ slope / values)
            move /= max(1.0, np.abs(move).max())
            for size in (1.0, 0.3, 0.1, 0.0):
                after, after_slope = nll(parameters + size * move)
                if after <= value:
                    break
            parameters = parameters + size * move
            change, value, slope = value - after, after, after_slope
            if not change > 1e-4:
                break
        return parameters, value

    def _null(self) -> Fit:
        shape = self._x.shape[1], self._layer.kernel.shape[1]
        start = np.array([to_float64(v).item() for v in self._learned])
        fit = Fit(np.zeros(shape), start, np.ones(1), 0.0, np.ones(1), np.inf)
        # Its prior has no scale.
        return self._fit(fit, 1e12)._replace(score=np.inf)

    def _hessian(self, curvatures: Array) -> Array:
        rows, columns = self._x.shape[1], curvatures.shape[1]
        hessian = np.empty((rows, columns, rows, columns))
        for k, m in itertools.combinations_with_replacement(range(columns), 2):
            product = (self._x.T * curvatures[:, k, m]) @ self._x
            hessian[:, k, :, m] = hessian[:, m, :, k] = product
        return hessian.reshape(rows * columns, rows * columns)

    def _fit(self, start: Fit, penalties: Any) -> Fit:
        """Fits with a penalty per weight, a factor of `w^2 / 2` or `|w|`."""
        is_l1 = self._prior.order == 1
        weights, parameters = start.weights, start.parameters
        freedom, on = start.freedom, self._penalized
        full = np.zeros(on.size)
        full[on] = penalties

        def penalty(w: Array) -> float:
            terms = np.abs(w) if is_l1 else 0.5 * w**2
            return float(full[on] @ terms.ravel()[on])

        for _ in range(8):
            z = self._x @ weights
            value, slope, _ = self._nll(z, parameters)
            gradient = (self._x.T @ slope).ravel()
            curvatures = self._curvatures(z, parameters)
            hessian = self._hessian(curvatures)
            # Softmax does not determine the mean of the intercepts.
            full[~on] = 1e-5 * hessian.diagonal().mean()
            if is_l1:
                move = _lasso_move(hessian, gradient, weights.ravel(), full, on)
            else:
                move = -np.linalg.solve(
                    hessian + np.diag(full), gradient + full * weights.ravel()
                )
            before = value + penalty(weights)
            for size in (1.0, 0.5, 0.2, 0.05):
                moved = weights + size * move.reshape(weights.shape)
                after = self._nll(self._x @ moved, parameters)[0]
                gain = before - after - penalty(moved)
                if gain >= -1e-6 * abs(before):
                    break
            weights, last = moved, parameters
            if parameters.size:
                influence, freedom = self._influence(
                    hessian, curvatures, weights, full
                )
                parameters, _ = self._fit_parameters(
                    self._x @ weights, parameters, freedom, 2
                )
            moved_by = np.abs(parameters - last).max(initial=0.0)
            if gain < 1e-4 * max(1.0, abs(before)) and moved_by < 0.01:
                break
        if not parameters.size:
            influence, freedom = self._influence(
                hessian, curvatures, weights, full
            )
        score = self._score(
            self._x @ weights, parameters, curvatures, influence
        )
        curvature = hessian.diagonal()[on]
        return Fit(weights, parameters, start.scales, freedom, curvature, score)

    def _influence(
        self, hessian: Array, curvatures: Array, weights: Array, full: Array
    ) -> tuple[Array, float]:
        """Change of a row's outputs for its own gradient, `(n, k, k)`, and
        the effective number of weights. What L1 has switched off does not move.
        """
        on, extra = self._penalized, full + 1e-7 * hessian.diagonal().mean()
        active = np.ones(on.size, bool)
        if self._prior.order == 1:
            active = (weights.ravel() != 0) | ~on
            extra -= on * full
        inside = np.ix_(active, active)
        inverse = np.zeros_like(hessian)
        inverse[inside] = np.linalg.inv((hessian + np.diag(extra))[inside])
        rows, columns = self._x.shape[1], curvatures.shape[1]
        parts = inverse.reshape(rows, columns, rows, columns)
        found = np.empty_like(curvatures)
        for k, m in itertools.combinations_with_replacement(range(columns), 2):
            product = np.sum((self._x @ parts[:, k, :, m]) * self._x, axis=1)
            found[:, k, m] = found[:, m, k] = product
        freedom = float(np.einsum("ikl,ilk->", curvatures, found))
        freedom -= float((~on).sum())
        return found, min(max(freedom, 0.0), 0.95 * self._terms)

    def _score(
        self, z: Array, parameters: Array, curvatures: Array, influence: Array
    ) -> float:
        slope = self._nll(z, parameters)[1]
        left = np.eye(z.shape[1]) - curvatures @ influence
        step = np.linalg.solve(left, slope[:, :, None])
        left_out = z + (influence @ step)[:, :, 0]
        if not np.isfinite(left_out).all():
            return np.inf
        return self._fit_parameters(left_out, parameters, 0.0)[1]

    def _best_uniform(self) -> Fit:
        """The fit with the best of the strengths, the same for all weights."""
        fit, prior = self._null(), self._prior
        level, factor = 10.0 * fit.curvature.mean(), 10.0**-0.5
        if prior.order == 1:
            # The strongest penalty switches all weights off.
            slope = self._nll(self._x @ fit.weights, fit.parameters)[1]
            gradient = (self._x.T @ slope).ravel()[self._penalized]
            level, factor = np.abs(gradient).max(), 2.0**-0.5
        best, worse = fit, 0

        def at(start: Fit, strength: float) -> Fit:
            scales = np.full(
                prior.log_scale.shape, strength ** (-1 / prior.order)
            )
            return self._fit(start, strength)._replace(scales=scales)

        for strength in level * factor ** np.arange(20):
            fit = at(fit, strength)
            better = fit.score < best.score
            best, worse = (fit, 0) if better else (best, worse + 1)
            if worse > 2:
                break
        middle = best.scales.flat[0] ** -prior.order
        between = [at(best, middle * factor**half) for half in (-0.5, 0.5)]
        return min([best, *between], key=lambda f: f.score)

    def _reweighted(self, fit: Fit) -> Fit:
        """The fit of a prior with a scale for each weight, a fixed point."""
        prior, kernel = self._prior, tuple(self._layer.kernel.shape)
        for _ in range(_ROUNDS):
            weights = fit.weights[: kernel[0]]
            free = max(1.0 - fit.freedom / self._terms, 0.05)
            precision = fit.curvature.reshape(kernel) * free
            shares = prior.share_determined(weights, fit.scales, precision)
            price = _price(weights, to_float64(shares) > 0.2, precision)
            if prior.order == 1:
                scales = (np.abs(weights) + np.sqrt(price / precision)) / price
            else:
                price = max(0.25 * price, 1.0)
                least = price / (8.0 * precision)
                scales = np.sqrt((weights**2 + least) / price)
            penalties = (scales**-prior.order).ravel()
            fit = self._fit(fit, penalties)._replace(scales=scales)
        return fit


def _price(weights: Array, on: Array, precision: Array) -> float:
    """Gain `A` in 2 log-likelihood that a weight needs to be on.

        A = 2 log((P - K) / K) + 2 log(B sqrt(h)),    at least 1

    for `K` of `P` weights on, of mean size `B`: prior odds and Occam factor.
    """
    count = float(np.sum(on))
    size = np.sum(on * np.abs(weights)) / max(count, 1.0)
    count = min(max(count, 0.5), weights.size - 0.5)
    odds = (weights.size - count) / count
    width = size * np.sqrt(np.mean(precision))
    return float(max(2.0 * np.log(odds * (width + 1e-12)), 1.0))


def _lasso_move(
    hessian: Array, gradient: Array, weights: Array, penalty: Array, on: Array
) -> Array:
    """Minimum of a quadratic model with L1, by coordinate descent."""
    diagonal = np.maximum(hessian.diagonal(), 1e-12)
    slope, moved = gradient.copy(), weights.copy()
    limit = np.where(on, penalty, 0.0)
    everything = places = np.arange(len(moved))
    for _ in range(60):
        largest = 0.0
        for j in places:
            old = moved[j]
            target = old * diagonal[j] - slope[j]
            size = max(abs(target) - limit[j], 0.0)
            moved[j] = np.sign(target) * size / diagonal[j]
            if (change := moved[j] - old) != 0:
                slope += hessian[j] * change
                largest = max(largest, abs(change) * diagonal[j] ** 0.5)
        if largest < 1e-2 and places is everything:
            break
        active = np.flatnonzero((moved != 0) | ~on)
        places = everything if largest < 1e-2 else active
    return moved - weights


def _is_random(features: Any) -> bool:
    """Whether outputs differ between training and inference."""
    inputs = keras.tree.map_structure(
        lambda t: ops.ones([n or 4 for n in t.shape], t.dtype), features.input
    )
    with keras.StatelessScope():
        ends = [features(inputs, training=flag) for flag in (True, False)]
    training, inference = map(to_float64, ends)
    return not np.allclose(training, inference, atol=1e-5)
