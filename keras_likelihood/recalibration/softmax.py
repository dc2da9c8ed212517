"""The softmax likelihood of logits, and its derivatives, in one pass.

With tau = 1 / T the NLL of a row is l(tau) = logsumexp(tau z) - tau z_y, and

    l'(tau) = E[z] - z_y,    l''(tau) = Var[z]

under the tempered softmax. All need one exponential for each logit. Blocks of
rows stay in the cache, and several threads share the blocks (NumPy releases
the interpreter lock). So a pass reads the logits from memory once.
"""

import concurrent.futures
import dataclasses
import os

import numpy as np
from scipy.special import log_softmax

from keras_likelihood.backend.types import Array
from keras_likelihood.recalibration.curvature import Curvature
from keras_likelihood.recalibration.network import LinkedObjective

_BLOCK = 2**16


@dataclasses.dataclass
class Moments:
    """Results of one pass, each `(rows,)`: the NLL, its derivatives w.r.t. tau,
    the largest probability, and 1 if the label has the largest logit.
    """

    nll: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    confidence: np.ndarray
    right: np.ndarray


def softmax_moments(logits, labels, tau) -> Moments:
    """Evaluates `l` for every row; `tau` is a number or `(rows,)`."""
    rows, classes = logits.shape
    tau = np.broadcast_to(np.asarray(tau, logits.dtype), (rows,))
    found = Moments(*np.empty((5, rows)))
    step = max(1, _BLOCK // classes)

    def block(start):
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
        found.nll[part] = np.log(total) - scale * label
        found.slope[part] = mean - label
        found.curvature[part] = np.maximum(square - mean * mean, 0.0)
        found.confidence[part] = 1.0 / total
        found.right[part] = z.argmax(axis=1) == y

    starts = range(0, rows, step)
    if len(starts) < 4:
        list(map(block, starts))
    else:
        # Processors that this process may use; `None` if this is unknown.
        usable = getattr(os, "sched_getaffinity", None)
        threads = usable and len(usable(0))
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            list(pool.map(block, starts))
    return found


_SAMPLE_ROWS = 4096
_LEAST_GAP = 1e-3
SPREAD = 0.3
"""Spread of the prior of log T; see `solve_temperature`."""


def solve_temperature(
    logits: Array,
    labels: Array,
    weight: Array | None = None,
    spread: float | None = None,
    unit: float = 1.0,
) -> float:
    """Returns the T that minimises the mean NLL of `logits / T`.

    The NLL is convex in tau = 1 / T. Newton steps that stay between slopes of
    opposite sign always reach the minimum. A sample of the rows gives the
    start, and the full data then need two or three passes.

    With `spread`, log T has a Cauchy prior around `-log(unit)`: few rows hardly
    move T, but many rows that disagree with the prior overrule it. The NLL
    never exceeds the NLL at the centre of the prior. If every label has the
    largest logit, T would go to 0, and the first wrong label would have an
    infinite loss. The prior is then used in any case. If the logits carry no
    information, T would go to infinity. It is limited to a thousand times the
    largest gap between two logits of a row, so that float32 still shows which
    probability is the largest. Constant logits have T = 1.
    """
    weight = np.ones(len(labels)) if weight is None else weight
    tau, nll = _minimum(logits, labels, weight, spread, unit)
    least = weight.min() / weight.mean()
    # A label without the largest logit has an NLL of at least log 2.
    if spread is None and nll < np.log(2) * least / len(labels):
        tau, _ = _minimum(logits, labels, weight, SPREAD, unit)
    # The first rows are almost always enough. All rows need another pass.
    for rows in (logits[:_SAMPLE_ROWS], logits):
        gap = float(np.ptp(rows, axis=-1).max())
        if tau * gap >= _LEAST_GAP:
            break
    return 1.0 / max(tau, _LEAST_GAP / max(gap, _LEAST_GAP))


def _minimum(logits, labels, weight, spread, unit):
    """tau and the mean NLL; see `solve_temperature`."""
    # The unit of the weights must not matter, so rows are counted.
    prior = None if spread is None else (spread, unit, 1 / len(labels))
    part = slice(None, None, max(1, len(labels) // _SAMPLE_ROWS))
    sample = logits[part], labels[part], weight[part]
    tau, _ = _newton(*sample, unit, prior)
    return _newton(logits, labels, weight, tau, prior)


def _newton(logits, labels, weight, tau, prior):
    """The tau at which the slope of the mean NLL is zero, and the NLL."""
    low, high = 1e-6, 1e6
    for _ in range(100):
        at = softmax_moments(logits, labels, tau)
        slope = np.average(at.slope, weights=weight)
        curvature = np.average(at.curvature, weights=weight)
        if prior is not None:
            # A parabola above the negative log density of the prior.
            spread, unit, share = prior
            distance = np.log(tau / unit)
            pull = 2 * share / (spread**2 + distance**2) / tau
            slope += pull * distance
            curvature += pull / tau
        if slope == 0.0:
            break
        low, high = (low, tau) if slope > 0 else (tau, high)
        target = tau - slope / curvature if curvature > 0 else high
        if not low < target < high:
            # The mean is geometric, because tau may be orders of magnitude
            # away.
            target = np.sqrt(low * high)
        moved, tau = abs(target / tau - 1), target
        # The error of the NLL is of the order of the fourth power of a step.
        if moved < 1e-3:
            break
    return float(tau), np.average(at.nll, weights=weight)


def tempered_softmax(z, labels, columns, offset, weight) -> LinkedObjective:
    """The objective of `z / T`, with `T = f(sum_g x_g w_g + c)`."""

    def by_temperature(temperature, rows):
        at = softmax_moments(z[rows], labels[rows], 1 / temperature)
        tau_slope = -1 / temperature**2
        return at.nll, at.slope * tau_slope, at.curvature * tau_slope**2

    return LinkedObjective(by_temperature, columns, offset, weight)


class MappedSoftmax:
    """Summed NLL of mapped logits, its gradients and curvatures.

        logits' = z (1 + v) + z D + b + x W

    `z` are log-probabilities, `(rows, classes)`, and `x` standardised
    features. `groups` lists the terms to use: `v` (vector), `D` (matrix), `b`
    (bias) and `W` (features).
    """

    def __init__(self, logits, labels, groups, features, weight):
        self.logits = logits
        self.labels = labels
        self.features = features
        self.weight = weight.astype(logits.dtype)
        classes = logits.shape[1]
        every = {
            "bias": (classes,),
            "vector": (classes,),
            "matrix": (classes, classes),
            "features": (*np.shape(features)[1:], classes),
        }
        self.shapes = {name: every[name] for name in groups}

    def evaluate(self, weights):
        """Returns the NLL and its gradients by group."""
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
                found = residual.sum(axis=0)
            elif name == "vector":
                found = np.einsum("ij,ij->j", residual, self.logits)
            else:
                x = self._inputs(name)
                found = x.T @ residual.astype(x.dtype, copy=False)
            gradients[name] = found.astype("float64")
        return float(self.weight @ nll), gradients

    def _inputs(self, name):
        return self.logits if name == "matrix" else self.features

    def curvature(self, name):
        """Gauss-Newton curvature of a group at the last evaluation."""
        root = np.sqrt(self.weight)[:, None]
        weighted = self._probability * root
        diagonal = weighted * root
        if name == "vector":
            weighted = weighted * self.logits
            diagonal = diagonal * self.logits**2
        matrix = np.diag(diagonal.sum(axis=0)) - weighted.T @ weighted
        if name in ("bias", "vector"):
            return Curvature(matrix.astype("float64"))
        # The exact matrix has (columns x classes)^2 entries. This Kronecker
        # product has the same trace, and weights a row by its uncertainty.
        doubt = 1 - np.einsum("ij,ij->i", self._probability, self._probability)
        doubt = self.weight * np.maximum(doubt, 1e-12)
        x = self._inputs(name)
        inputs = (x * doubt[:, None].astype(x.dtype)).T @ x
        return Curvature(
            inputs.astype("float64"), (matrix / doubt.sum()).astype("float64")
        )


def floored_logs(logits: Array, floor: float) -> Array:
    """`log((1 - floor) p + floor / classes)` of `p = softmax(logits)`."""
    logs = log_softmax(logits, axis=1)
    if floor == 0:
        return logs
    return np.log((1 - floor) * np.exp(logs) + floor / logits.shape[1])


def map_logits(logits, weights, features=None):
    """Applies the parts of the map that `weights` names."""
    mapped, kind = logits, logits.dtype
    if "vector" in weights:
        mapped = mapped * (1.0 + weights["vector"]).astype(kind)
    if "matrix" in weights:
        mapped = mapped + logits @ weights["matrix"].astype(kind)
    if "features" in weights:
        x = features @ weights["features"].astype(features.dtype)
        mapped = mapped + x.astype(kind)
    if "bias" in weights:
        mapped = mapped + weights["bias"].astype(kind)
    return mapped
