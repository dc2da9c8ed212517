"""The softmax likelihood of logits, and its derivatives, in one pass.

With tau = 1 / T the NLL of a row is l(tau) = logsumexp(tau z) - tau z_y, and

    l'(tau) = E[z] - z_y,    l''(tau) = Var[z]

under the tempered softmax. All need one exponential for each logit. Blocks of
rows stay in the cache, and several threads share the blocks (NumPy releases
the interpreter lock). So a pass reads the logits from memory once.
"""

import concurrent.futures
import os
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.recalibration.inputs import Rows
from keras_likelihood.recalibration.network import LinkedObjective
from keras_likelihood.recalibration.penalised_fit import Curvature, Groups

_BLOCK = 2**16


class Moments(NamedTuple):
    """Results of one pass, each `(rows,)`: the NLL, its derivatives w.r.t. tau,
    the largest probability, and 1 if the label has the largest logit.
    """

    nll: Array
    slope: Array
    curvature: Array
    confidence: Array
    right: Array


def softmax_moments(logits: Array, labels: Array, tau: Any) -> Moments:
    """Evaluates `l` for every row; `tau` is a number or `(rows,)`."""
    rows, classes = logits.shape
    tau = np.broadcast_to(np.asarray(tau, logits.dtype), (rows,))
    moments = Moments(*np.empty((5, rows)))
    step = max(1, _BLOCK // classes)

    def block(start: int) -> None:
        part = slice(start, start + step)
        z, y, scale = logits[part], labels[part], tau[part]
        # The largest logit is subtracted. So the variance has no cancellation,
        # and no exponent is above zero.
        centred = z - z.max(axis=1, keepdims=True)
        label = centred[np.arange(len(y)), y]
        weight = centred * scale[:, None]
        np.exp(weight, out=weight)
        total = weight.sum(axis=1)
        mean = np.einsum("ij,ij->i", weight, centred) / total
        weight *= centred
        square = np.einsum("ij,ij->i", weight, centred) / total
        moments.nll[part] = np.log(total) - scale * label
        moments.slope[part] = mean - label
        moments.curvature[part] = np.maximum(square - mean * mean, 0.0)
        moments.confidence[part] = 1.0 / total
        moments.right[part] = z.argmax(axis=1) == y

    starts = range(0, rows, step)
    if len(starts) < 4:
        list(map(block, starts))
    else:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(block, starts))
    return moments


_SAMPLE_ROWS = 4096
_LEAST_GAP = 1e-3
SPREAD = 0.3
"""Spread of the prior of log T; see `solve_temperature`."""


def solve_temperature(rows: Rows, spread: float | None = None) -> float:
    """Returns the T that minimises the mean NLL of `logits / T`.

    The NLL is convex in tau = 1 / T. With `spread`, log T has a Cauchy prior
    around 0, as it has if every label has the largest logit. T is at most a
    thousand times the largest gap between two logits of a row, so that float32
    still shows which probability is the largest.
    """
    count = len(rows.labels)

    def minimum(spread: float | None) -> tuple[float, float]:
        tau = nll = 1.0
        for every in (max(1, count // _SAMPLE_ROWS), 1):
            sample = rows.part(slice(None, None, every))
            tau, nll = _newton(sample, tau, spread, count)
        return tau, nll

    tau, nll = minimum(spread)
    least = rows.weight.min() / rows.weight.mean()
    # A label without the largest logit has an NLL of at least log 2.
    if spread is None and nll < np.log(2) * least / count:
        tau, _ = minimum(SPREAD)
    gap = float(np.ptp(rows.logits, axis=-1).max())
    return 1.0 / max(tau, _LEAST_GAP / max(gap, _LEAST_GAP))


def _newton(
    rows: Rows, tau: float, spread: float | None, count: int
) -> tuple[float, float]:
    """The tau at which the slope of the mean NLL is zero, and the NLL."""
    low, high = 1e-6, 1e6
    for _ in range(100):
        at = softmax_moments(rows.logits, rows.labels, tau)
        slope = np.average(at.slope, weights=rows.weight)
        curvature = np.average(at.curvature, weights=rows.weight)
        if spread is not None:
            # A parabola above the negative log density of the prior. Rows are
            # counted, because the unit of their weights must not matter.
            pull = 2 / count / (spread**2 + np.log(tau) ** 2) / tau
            slope += pull * np.log(tau)
            curvature += pull / tau
        if slope == 0.0:
            break
        low, high = (low, tau) if slope > 0 else (tau, high)
        target = tau - slope / curvature if curvature > 0 else high
        if not low < target < high:
            # tau may be orders of magnitude away.
            target = np.sqrt(low * high)
        moved, tau = abs(target / tau - 1), target
        # The error of the NLL is of the order of the fourth power of a step.
        if moved < 1e-3:
            break
    return float(tau), float(np.average(at.nll, weights=rows.weight))


OFFSET = 0.2
"""Offset of the softplus of a predicted temperature."""


def tempered_softmax(rows: Rows, columns: Groups) -> LinkedObjective:
    """The objective of `logits / T`, with `T = f(sum_g x_g w_g + c)`."""

    def by_temperature(
        temperature: Array, part: Any
    ) -> tuple[Array, Array, Array]:
        z, labels = rows.logits[part], rows.labels[part]
        at = softmax_moments(z, labels, 1 / temperature)
        tau_slope = -1 / temperature**2
        return at.nll, at.slope * tau_slope, at.curvature * tau_slope**2

    return LinkedObjective(by_temperature, columns, OFFSET, rows.weight)


class MappedSoftmax:
    """Summed NLL of mapped logits, its gradients and curvatures.

        logits' = z (1 + v) + z D + b + x W

    `z` are log-probabilities and `x` standardised features. `groups` lists the
    terms to use: `v` (vector), `D` (matrix), `b` (bias) and `W` (features).
    """

    def __init__(self, rows: Rows, groups: tuple[str, ...]) -> None:
        self.logits, self.labels = rows.logits, rows.labels
        self.features, classes = rows.features, rows.logits.shape[1]
        self.weight = rows.weight.astype(rows.logits.dtype)
        columns = () if rows.features is None else rows.features.shape[1:]
        leading = {"matrix": (classes,), "features": columns}
        self.shapes = {k: (*leading.get(k, ()), classes) for k in groups}

    def evaluate(self, weights: Groups) -> tuple[float, Groups]:
        rows = np.arange(len(self.labels))
        p = map_logits(self.logits, weights, self.features)
        p = p - p.max(axis=1, keepdims=True)
        label = p[rows, self.labels].astype("float64")
        np.exp(p, out=p)
        total = p.sum(axis=1)
        nll = np.log(total.astype("float64")) - label
        p /= total[:, None]
        self._probability = p
        residual = p * self.weight[:, None]
        residual[rows, self.labels] -= self.weight
        gradients = {}
        for name in self.shapes:
            if name == "bias":
                gradient = residual.sum(axis=0)
            elif name == "vector":
                gradient = np.einsum("ij,ij->j", residual, self.logits)
            else:
                x = self._inputs(name)
                gradient = x.T @ residual.astype(x.dtype, copy=False)
            gradients[name] = gradient.astype("float64")
        return float(self.weight @ nll), gradients

    def _inputs(self, name: str) -> Any:
        return self.logits if name == "matrix" else self.features

    def curvature(self, name: str) -> Curvature:
        p, root = self._probability, np.sqrt(self.weight)[:, None]
        factor = self.logits * root if name == "vector" else root
        weighted = p * factor
        diagonal = (weighted * factor).sum(axis=0).astype("float64")
        if name in ("bias", "vector"):
            # The cost of the rest of the matrix grows with classes cubed.
            return Curvature(diagonal)
        matrix = np.diag(diagonal) - weighted.T @ weighted
        # The exact matrix has (columns x classes)^2 entries. This Kronecker
        # product has the same trace, and weights a row by its uncertainty.
        doubt = 1 - np.einsum("ij,ij->i", p, p)
        doubt = self.weight * np.maximum(doubt, 1e-12)
        x = self._inputs(name)
        inputs = (x * doubt[:, None].astype(x.dtype)).T @ x
        return Curvature(inputs.astype("float64"), matrix / doubt.sum())


def map_logits(
    logits: Tensor, weights: Groups, features: Tensor | None = None
) -> Tensor:
    """Applies the parts of the map that `weights` names.

    Symbolic logits pass a stock Keras layer.
    """
    if not isinstance(logits, np.ndarray):
        layer = keras.layers.Dense(logits.shape[-1])
        if "features" in weights:
            mapped = logits + layer(features)
            layer.set_weights([weights["features"], weights["bias"]])
            return mapped
        mapped = layer(logits)
        kernel = np.diag(1 + weights["vector"]) + weights.get("matrix", 0.0)
        layer.set_weights([kernel, weights["bias"]])
        return mapped
    mapped = logits
    if "vector" in weights:
        mapped = mapped * (1.0 + weights["vector"]).astype(logits.dtype)
    for name, x in (("matrix", logits), ("features", features)):
        if x is not None and name in weights:
            product = x @ weights[name].astype(x.dtype)
            mapped = mapped + product.astype(logits.dtype)
    if "bias" in weights:
        mapped = mapped + weights["bias"].astype(logits.dtype)
    return mapped
