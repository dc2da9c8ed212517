"""A small network that predicts a parameter, fitted by L-BFGS."""

import numpy as np

from keras_likelihood.recalibration.folds import random_folds


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
