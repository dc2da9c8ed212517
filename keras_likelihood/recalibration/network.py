"""A parameter predicted by a linear map or a small network."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.recalibration.inputs import FOLDS, random_folds
from keras_likelihood.recalibration.penalised_fit import Curvature, Groups

_ITERATIONS = 40
_MOST_ITERATIONS = 500


def shifted_softplus(x: Array, offset: float) -> tuple[Array, Array]:
    """`f(x) = (ln(1 + e^x) + s) / (ln 2 + s)` and its slope, in NumPy."""
    unit = np.log(2.0) + offset
    value = (np.logaddexp(0.0, x) + offset) / unit
    return np.maximum(value, 1e-30), expit(x) / unit


class LinkedObjective:
    """Summed NLL of a parameter that is predicted from standardised columns.

        parameter = f(sum_g x_g w_g + c),    f = shifted_softplus

    `loss(parameter, rows)` returns the NLL of these rows, its derivative and
    its curvature.
    """

    def __init__(
        self,
        loss: Callable[[Array, Any], tuple[Array, Array, Array]],
        columns: Groups,
        offset: float,
        weight: Array,
    ) -> None:
        self.loss, self.columns = loss, columns
        self.offset, self.weight = offset, weight
        self.shapes = {name: (x.shape[1],) for name, x in columns.items()}
        self.shapes["free"] = (1,)

    def by_row(self, eta: Array, rows: Any) -> Array:
        """Weighted NLL of some rows, its slope and curvature w.r.t. `eta`."""
        value, slope = shifted_softplus(eta, self.offset)
        nll, gradient, curvature = self.loss(value, rows)
        parts = np.stack([nll, gradient * slope, curvature * slope**2])
        return self.weight[rows] * parts

    def evaluate(self, weights: Groups) -> tuple[float, Groups]:
        """Returns the NLL and its gradients by group."""
        eta = linear_part(self.columns, weights)
        nll, gradient, self._curvature = self.by_row(eta, slice(None))
        gradients = {
            name: (x.T @ gradient.astype(x.dtype)).astype("float64")
            for name, x in self.columns.items()
        }
        gradients["free"] = np.array([gradient.sum()])
        return float(nll.sum()), gradients

    def curvature(self, name: str) -> Curvature:
        """Gauss-Newton curvature of a group at the last evaluation."""
        total = self._curvature.sum()
        if name == "free":
            return Curvature(np.array([[total]]) + 1e-12)
        x = self.columns[name]
        root = np.sqrt(self._curvature)[:, None].astype(x.dtype)
        weighted = x * root
        # The intercept has no prior, so it is projected out.
        middle = root[:, 0] / max(np.sqrt(total), 1e-30)
        weighted -= np.outer(middle, middle @ weighted)
        return Curvature((weighted.T @ weighted).astype("float64"))


def linear_part(columns: Groups, weights: Groups) -> Array:
    """`sum_g x_g w_g + c`, in float64."""
    linear = weights["free"][0]
    for name, x in columns.items():
        product = x @ weights[name].astype(x.dtype)
        linear = linear + product.astype("float64")
    return linear


def run_network(parts: Sequence[Array], x: Array) -> tuple[Array, list[Array]]:
    """Output `(rows,)` and activations of `[kernel, bias, ...]` on `x`."""
    activations = [x]
    for kernel, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
        activations.append(np.tanh(activations[-1] @ kernel + bias))
    return (activations[-1] @ parts[-2] + parts[-1])[:, 0], activations


def fit_network(
    objective: LinkedObjective,
    raw: Array,
    hidden: tuple[int, ...],
    seed: int,
    has_prior: bool = True,
) -> tuple[list[Array], int]:
    """Fits `[kernel, bias, ...]` of a network; also returns the iterations.

    Their number is the best on average on three held-out parts, and may be
    zero. Rows that are equal in `raw`, the columns before they were
    standardised, share a fold. Without `has_prior`, the fit ends at the maximum
    likelihood.
    """
    (x,) = objective.columns.values()
    # The unit of the weights must not matter.
    objective.weight = objective.weight / objective.weight.mean()
    random, sizes = np.random.default_rng(seed), [x.shape[1], *hidden]
    start: list[Array] = []
    for shape in itertools.pairwise(sizes):
        limit = np.sqrt(6 / sum(shape))
        start += [random.uniform(-limit, limit, shape), np.zeros(shape[1])]
    start += [np.zeros((sizes[-1], 1)), np.zeros(1)]
    rows = np.arange(len(x))
    if not has_prior:
        path = training_path(objective, start, rows, _MOST_ITERATIONS, 0.0)
        return path[-1], len(path) - 1
    curves = []
    for held_out in random_folds(raw, None, FOLDS, seed):
        rest = np.delete(rows, held_out)
        losses = [
            objective.by_row(run_network(p, x[held_out])[0], held_out)[0].mean()
            for p in training_path(objective, start, rest, _ITERATIONS)
        ]
        missing = _ITERATIONS + 1 - len(losses)
        curves.append(np.pad(losses, (0, missing), mode="edge"))
    best = int(np.argmin(np.mean(curves, axis=0)))
    return training_path(objective, start, rows, best)[-1], best


def training_path(
    objective: LinkedObjective,
    start: list[Array],
    rows: Array,
    iterations: int,
    decay: float = 1e-4,
) -> list[list[Array]]:
    """The network `[kernel, bias, ...]` after each iteration of L-BFGS."""
    (x,) = (columns[rows] for columns in objective.columns.values())
    ends = np.cumsum([part.size for part in start])[:-1]

    def unpack(packed: Array) -> list[Array]:
        parts = zip(np.split(packed.copy(), ends), start, strict=True)
        return [part.reshape(like.shape) for part, like in parts]

    def pack(parts: list[Array]) -> Array:
        return np.concatenate([part.ravel() for part in parts])

    def loss(packed: Array) -> tuple[float, Array]:
        parts = unpack(packed)
        output, activations = run_network(parts, x)
        values, slopes, _ = objective.by_row(output, rows)
        error = slopes[:, None] / len(rows)
        gradients: list[Array] = []
        for kernel, a in zip(parts[-2::-2], activations[::-1], strict=True):
            gradients = [a.T @ error, error.sum(axis=0), *gradients]
            error = (error @ kernel.T) * (1 - a**2)
        # A little weight decay keeps unused weights from drifting.
        value = values.mean() + 0.5 * decay * packed @ packed
        return value, pack(gradients) + decay * packed

    path = [start]

    def keep(packed: Array) -> None:
        path.append(unpack(packed))

    if iterations:
        options: dict[str, Any] = {"options": {"maxiter": iterations}}
        options |= {"method": "L-BFGS-B", "callback": keep}
        minimize(loss, pack(start), jac=True, **options)
    return path


def predicted_parameter(
    x: Tensor, parts: Sequence[Array], offset: float
) -> Tensor:
    """The column that `[kernel, bias, ...]` predict.

    A symbolic `x` passes stock Keras layers.
    """
    if isinstance(x, np.ndarray):
        return shifted_softplus(run_network(parts, x)[0], offset)[0][:, None]
    for at in range(0, len(parts), 2):
        kernel, bias = parts[at : at + 2]
        activation = "tanh" if at < len(parts) - 2 else "softplus"
        layer = keras.layers.Dense(kernel.shape[1], activation)
        x = layer(x)
        layer.set_weights([kernel, np.reshape(bias, -1)])
    unit = float(np.log(2.0)) + offset
    return keras.layers.Rescaling(1 / unit, offset / unit)(x)
