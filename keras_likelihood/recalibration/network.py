"""A parameter predicted by a linear map or a small network."""

import itertools
from typing import Any

import keras
import numpy as np
from scipy.special import expit

from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.recalibration.curvature import Curvature
from keras_likelihood.recalibration.inputs import random_folds

_ITERATIONS = 40
_MOST_ITERATIONS = 500


def shifted_softplus(x, offset):
    """`f(x) = (ln(1 + e^x) + s) / (ln 2 + s)` and its slope, in NumPy.

    It is the map of `constraints.ShiftedSoftplus`, with `f(0) = 1`.
    """
    unit = np.log(2.0) + offset
    value = (np.logaddexp(0.0, x) + offset) / unit
    return np.maximum(value, 1e-30), expit(x) / unit


class LinkedObjective:
    """Summed NLL of a parameter that is predicted from columns.

        parameter = f(sum_g x_g w_g + c),    f = shifted_softplus

    `loss(parameter, rows)` returns the NLL of these rows, and its derivative
    and curvature with respect to the parameter. `columns` maps names of groups
    to standardised arrays `(rows, ...)`.
    """

    def __init__(self, loss, columns, offset, weight):
        self.loss = loss
        self.columns = columns
        self.offset = offset
        self.weight = weight
        self.shapes = {name: (x.shape[1],) for name, x in columns.items()}
        self.shapes["free"] = (1,)

    def by_row(self, eta, rows):
        """Weighted NLL of some rows, its slope and curvature w.r.t. `eta`."""
        value, slope = shifted_softplus(eta, self.offset)
        nll, gradient, curvature = self.loss(value, rows)
        found = np.stack([nll, gradient * slope, curvature * slope**2])
        return self.weight[rows] * found

    def evaluate(self, weights):
        """Returns the NLL and its gradients by group."""
        eta = linear_part(self.columns, weights)
        nll, gradient, self._curvature = self.by_row(eta, slice(None))
        gradients = {
            name: (x.T @ gradient.astype(x.dtype)).astype("float64")
            for name, x in self.columns.items()
        }
        gradients["free"] = np.array([gradient.sum()])
        return float(nll.sum()), gradients

    def curvature(self, name):
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


def linear_part(columns, weights):
    """`sum_g x_g w_g + c`, in float64."""
    linear = weights["free"][0]
    for name, x in columns.items():
        product = x @ weights[name].astype(x.dtype)
        linear = linear + product.astype("float64")
    return linear


class SmallNetwork:
    """Hidden tanh layers and a linear output that starts at zero."""

    def __init__(self, inputs, hidden, seed):
        random = np.random.default_rng(seed)
        sizes = [inputs, *hidden]
        start = []
        for rows, columns in itertools.pairwise(sizes):
            limit = np.sqrt(6 / (rows + columns))
            kernel = random.uniform(-limit, limit, (rows, columns))
            start += [kernel, np.zeros(columns)]
        start += [np.zeros((sizes[-1], 1)), np.zeros(1)]
        self.shapes = [a.shape for a in start]
        self.start = np.concatenate([a.ravel() for a in start])

    def unpack(self, packed):
        """Returns `[kernel, bias, kernel, bias, ...]`."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        return list(map(np.reshape, np.split(packed, ends[:-1]), self.shapes))

    def backward(self, packed, activations, slope):
        """Gradient of a loss; `slope` is its derivative w.r.t. the output."""
        kernels = self.unpack(packed)[::2]
        error = slope[:, None]
        gradients: list = []
        for x, kernel in zip(activations[::-1], kernels[::-1], strict=True):
            gradients = [x.T @ error, error.sum(axis=0), *gradients]
            error = (error @ kernel.T) * (1 - x**2)
        return np.concatenate([g.ravel() for g in gradients])


def run_network(parts, x):
    """Output `(rows,)` and activations of `[kernel, bias, ...]` on `x`."""
    activations = [x]
    for kernel, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
        activations.append(np.tanh(activations[-1] @ kernel + bias))
    return (activations[-1] @ parts[-2] + parts[-1])[:, 0], activations


def fit_network(
    objective: LinkedObjective,
    raw: Any,
    hidden: tuple[int, ...],
    seed: int,
    has_prior: bool = True,
) -> tuple[list[Array], int]:
    """Fits a network and stops when held-out examples stop improving.

    The loss on each of three held-out parts is measured after each iteration
    of L-BFGS on the others. All data are then fitted for the number of
    iterations that was best on average, which may be zero. Rows that are equal
    in `raw`, the columns before they were standardised, share a fold. Without
    `has_prior`, the fit ends at the maximum likelihood. Returns
    `([kernel, bias, ...], iterations)`.
    """
    (x,) = objective.columns.values()
    # The unit of the weights must not matter.
    objective.weight = objective.weight / objective.weight.mean()
    network = SmallNetwork(x.shape[1], hidden, seed)
    rows = np.arange(len(x))
    if not has_prior:
        path = _path(network, objective, x, rows, _MOST_ITERATIONS, 0.0)
        return network.unpack(path[-1]), len(path) - 1
    curves = []
    for held in random_folds(raw, None, 3, seed):
        path = _path(network, objective, x, np.delete(rows, held), _ITERATIONS)
        outputs = [run_network(network.unpack(p), x[held])[0] for p in path]
        losses = [objective.by_row(o, held)[0].mean() for o in outputs]
        curves.append(
            np.pad(losses, (0, _ITERATIONS + 1 - len(losses)), mode="edge")
        )
    best = int(np.argmin(np.mean(curves, axis=0)))
    path = _path(network, objective, x, rows, best)
    return network.unpack(path[-1]), best


def _path(network, objective, x, rows, iterations, decay=1e-4):
    from scipy.optimize import minimize

    path = [network.start]
    if iterations == 0:
        return path
    inputs = x[rows]

    def loss(packed):
        output, activations = run_network(network.unpack(packed), inputs)
        values, slopes, _ = objective.by_row(output, rows)
        gradient = network.backward(packed, activations, slopes / len(rows))
        # A little weight decay keeps unused weights from drifting.
        value = values.mean() + 0.5 * decay * packed @ packed
        return value, gradient + decay * packed

    minimize(
        loss,
        network.start,
        jac=True,
        method="L-BFGS-B",
        callback=lambda p: path.append(p.copy()),
        options={"maxiter": iterations},
    )
    return path


def predicted_parameter(x: Tensor, parts: list, offset: float) -> Tensor:
    """A parameter that a fitted network predicts, as stock Keras layers.

    `x` is symbolic, `(batch, ..., columns)`, and `parts` are `[kernel, bias,
    ...]`. It is the map of `shifted_softplus`. The result has one column.
    """
    pairs = list(zip(parts[::2], parts[1::2], strict=True))
    for kernel, bias in pairs:
        units = kernel.shape[1]
        is_last = kernel is pairs[-1][0]
        layer = keras.layers.Dense(units, "softplus" if is_last else "tanh")
        x = layer(x)
        layer.set_weights([kernel, np.reshape(bias, (units,))])
    unit = float(np.log(2.0)) + offset
    return keras.layers.Rescaling(1 / unit, offset / unit)(x)
