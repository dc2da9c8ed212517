"""A parameter predicted by a linear map or a small network."""

import keras
import numpy as np

from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.layers import PredictedParameter
from keras_likelihood.recalibration.folds import random_folds


class SoftplusLink:
    """`f(x) = (ln(1 + e^x) + s) / (ln 2 + s)` and its slope; `f(0) = 1`.

    It is the same map as `constraints.ShiftedSoftplus`, so that a
    `PredictedParameter` can use a fitted kernel.

    Args:
        offset: the `s` above, `>= 0`; `f` stays above `s / (ln 2 + s)`.
    """

    def __init__(self, offset):
        self.offset = offset

    def __call__(self, x):
        unit = np.log(2.0) + self.offset
        value = (np.logaddexp(0.0, x) + self.offset) / unit
        # The exponent is never positive, so that exp cannot overflow.
        small = np.exp(-np.abs(x))
        slope = np.where(x >= 0, 1.0, small) / (1.0 + small)
        return np.maximum(value, 1e-30), slope / unit


class SmallNetwork:
    """Hidden tanh layers and a linear output that starts at zero.

    Args:
        inputs: number of input columns.
        hidden: sizes of the hidden layers.
        seed: the random seed of the initial hidden weights.
    """

    def __init__(self, inputs, hidden, seed):
        random = np.random.default_rng(seed)
        sizes = [inputs, *hidden]
        start = []
        for rows, columns in zip(sizes[:-1], sizes[1:], strict=True):
            limit = np.sqrt(6 / (rows + columns))
            kernel = random.uniform(-limit, limit, (rows, columns))
            start += [kernel, np.zeros(columns)]
        start += [np.zeros((sizes[-1], 1)), np.zeros(1)]
        self.shapes = [a.shape for a in start]
        self.start = np.concatenate([a.ravel() for a in start])

    def unpack(self, packed):
        """Returns `[kernel, bias, kernel, bias, ...]`."""
        parts, at = [], 0
        for shape in self.shapes:
            size = int(np.prod(shape))
            parts.append(packed[at : at + size].reshape(shape))
            at += size
        return parts

    def forward(self, packed, x):
        """Returns the output `(rows,)` and the activations of each layer."""
        return run_network(self.unpack(packed), x)

    def backward(self, packed, activations, slope):
        """Gradient of a loss whose derivative by the output is `slope`."""
        parts = self.unpack(packed)
        error = slope[:, None]
        gradients = []
        for index in range(len(activations) - 1, -1, -1):
            kernel = parts[2 * index]
            gradients = [
                activations[index].T @ error,
                error.sum(axis=0),
                *gradients,
            ]
            error = (error @ kernel.T) * (1 - activations[index] ** 2)
        return np.concatenate([g.ravel() for g in gradients])


def run_network(parts, x):
    """Output `(rows,)` and activations of `[kernel, bias, ...]` on `x`."""
    activations = [x]
    for kernel, bias in zip(parts[:-2:2], parts[1:-2:2], strict=True):
        activations.append(np.tanh(activations[-1] @ kernel + bias))
    output = activations[-1] @ parts[-2] + parts[-1]
    return output[:, 0], activations


def fit_network(objective, x, raw, hidden, seed, folds=3, iterations=40):
    """Fits a network and stops when held-out examples stop improving.

    The loss on each of `folds` held-out parts is measured after each iteration
    of L-BFGS on the others. All data are then fitted for the number of
    iterations that was best on average. This number may be zero, which means
    GlobalScaling.

    Args:
        objective: function of `(eta, rows)` that gives the loss and its
            derivative of each of those rows.
        x: standardised inputs, `(rows, columns)`.
        raw: the inputs before that. Rows that are equal share a fold.
        hidden: sizes of the hidden layers.
        seed: the random seed of the initial weights and of the folds.

    Returns:
        `(kernels_and_biases, iterations)`.
    """
    network = SmallNetwork(x.shape[1], hidden, seed)
    rows = np.arange(len(x))
    curves = []
    for held in random_folds(raw, None, folds, seed):
        rest = np.delete(rows, held)
        path = _path(network, objective, x, rest, iterations)
        losses = [
            objective(network.forward(p, x[held])[0], held)[0].mean()
            for p in path
        ]
        losses += [losses[-1]] * (iterations + 1 - len(losses))
        curves.append(losses)
    best = int(np.argmin(np.mean(curves, axis=0)))
    path = _path(network, objective, x, rows, best)
    return network.unpack(path[-1]), best


def _path(network, objective, x, rows, iterations):
    from scipy.optimize import minimize

    path = [network.start]
    if iterations == 0:
        return path
    inputs = x[rows]

    def loss(packed):
        output, activations = network.forward(packed, inputs)
        values, slopes = objective(output, rows)
        slope = slopes / len(rows)
        gradient = network.backward(packed, activations, slope)
        # A little weight decay keeps unused weights from drifting.
        value = values.mean() + 0.5e-4 * packed @ packed
        return value, gradient + 1e-4 * packed

    minimize(
        loss,
        network.start,
        jac=True,
        method="L-BFGS-B",
        callback=lambda p: path.append(p.copy()),
        options={"maxiter": iterations},
    )
    return path


def predicted_parameter(
    likelihood, name, features, kernel, bias, *, units, offset
):
    """A likelihood parameter as a linear function of a symbolic tensor.

    Args:
        likelihood: name of the likelihood.
        name: the name of its parameter.
        features: symbolic tensor `(batch, ..., columns)`.
        kernel: `(columns,)` or `(columns, 1)`.
        bias: a number or `(1,)`.
        units: size of the last axis of the prediction.
        offset: the offset of the shifted softplus.

    Returns:
        Symbolic tensor of the parameter.
    """
    layer = PredictedParameter(
        likelihood,
        name,
        units=units,
        constraint=ShiftedSoftplus(offset),
        name=f"predicted_{name}",
    )
    predicted = layer(features)
    layer.set_weights([np.reshape(kernel, (-1, 1)), np.reshape(bias, (1,))])
    return predicted


def hidden_layers(x, parts, name):
    """The hidden tanh layers of a fitted network on a symbolic tensor.

    Args:
        x: symbolic tensor `(batch, ..., columns)`.
        parts: `[kernel, bias, kernel, bias, ...]` of the hidden layers.
        name: what the network predicts, for the layers' names.
    """
    pairs = zip(parts[::2], parts[1::2], strict=True)
    for index, (kernel, bias) in enumerate(pairs):
        layer = keras.layers.Dense(
            kernel.shape[1], "tanh", name=f"{name}_hidden_{index}"
        )
        x = layer(x)
        layer.set_weights([kernel, bias])
    return x
