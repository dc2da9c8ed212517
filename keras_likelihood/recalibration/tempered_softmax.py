"""The objective of every classifier's recalibration.

    logits' = (z (1 + v) + z D + b) / T,    T = f(x w + c)

`z` are logits already divided by their global temperature and `x` are
standardised features, so that all weights at zero mean GlobalScaling. Each
of `v` (vector), `D` (matrix), `b` (bias) and `w` (temperature) may be absent.
A kernel: the softmax together with its gradients, in one pass.
"""

import numpy as np

from keras_likelihood.recalibration.evidence import Curvature
from keras_likelihood.recalibration.moments import softmax_moments


class TemperedSoftmax:
    """Summed NLL of recalibrated logits, its gradients and curvatures.

    Args:
        logits: `z` above, `(rows, classes)`.
        labels: class numbers `(rows,)`.
        features: `x` above, `(rows, features)`, or `None`.
        groups: names among `"bias"`, `"vector"`, `"matrix"` of the parts of
            the map in use.
        link: the map `f` with its derivative.
        weight: `(rows,)`, or `None`.
    """

    def __init__(
        self, logits, labels, features, groups=(), link=None, weight=None
    ):
        self.logits = logits
        self.labels = labels
        self.features = features
        self.link = link
        self.weight = np.ones(len(labels)) if weight is None else weight
        self.groups = tuple(groups)
        classes = logits.shape[1]
        every = {
            "bias": (classes,),
            "vector": (classes,),
            "matrix": (classes, classes),
        }
        self.shapes = {name: every[name] for name in self.groups}
        if features is not None:
            self.shapes["temperature"] = (features.shape[1],)
            self.shapes["free"] = (1,)

    def evaluate(self, weights):
        """Returns the NLL and its gradients by group."""
        mapped = map_logits(self.logits, weights)
        tau, self._tau_slope = self._inverse_temperature(weights)
        self._mapped, self._tau = mapped, tau
        if not self.groups:
            at = softmax_moments(mapped, self.labels, tau)
            self._moments = at
            value = float(self.weight @ at.nll)
            return value, self._temperature_gradients(at.slope)
        return self._evaluate_map(mapped, tau)

    def _evaluate_map(self, mapped, tau):
        rows = np.arange(len(self.labels))
        scaled = mapped * tau[:, None]
        scaled -= scaled.max(axis=1, keepdims=True)
        label = scaled[rows, self.labels]
        np.exp(scaled, out=scaled)
        total = scaled.sum(axis=1)
        nll = np.log(total) - label
        scaled /= total[:, None]
        self._probability = scaled
        residual = scaled.copy()
        residual[rows, self.labels] -= 1.0
        slope = np.einsum("ij,ij->i", residual, mapped)
        gradients = self._temperature_gradients(slope)
        residual *= (self.weight * tau)[:, None]
        if "bias" in self.groups:
            gradients["bias"] = residual.sum(axis=0)
        if "vector" in self.groups:
            gradients["vector"] = np.einsum("ij,ij->j", residual, self.logits)
        if "matrix" in self.groups:
            gradients["matrix"] = self.logits.T @ residual
        ordered = {name: gradients[name] for name in self.shapes}
        return float(self.weight @ nll), ordered

    def _inverse_temperature(self, weights):
        if self.features is None:
            return np.ones(len(self.labels)), None
        dtype = self.features.dtype
        linear = self.features @ weights["temperature"].astype(dtype)
        linear = linear.astype("float64") + weights["free"][0]
        temperature, slope = self.link(linear)
        return 1 / temperature, -slope / temperature**2

    def _temperature_gradients(self, slope):
        if self.features is None:
            return {}
        pull = self.weight * slope * self._tau_slope
        kernel = self.features.T @ pull.astype(self.features.dtype)
        return {
            "temperature": kernel.astype("float64"),
            "free": np.array([pull.sum()]),
        }

    def curvature(self, name):
        """Gauss-Newton curvature of a group at the last evaluation."""
        if name in ("temperature", "free"):
            return self._temperature_curvature(name)
        root = np.sqrt(self.weight) * self._tau
        spread = self._probability * root[:, None]
        if name == "vector":
            spread = spread * self.logits
            diagonal = spread * (root[:, None] * self.logits)
        else:
            diagonal = spread * root[:, None]
        matrix = np.diag(diagonal.sum(axis=0)) - spread.T @ spread
        if name != "matrix":
            return Curvature.of(matrix)
        # The exact matrix has classes^4 entries. This Kronecker product
        # has its trace, and weighs a row's input by how uncertain it is.
        doubt = root**2 * (1 - np.sum(self._probability**2, axis=1))
        doubt = np.maximum(doubt, 1e-12)
        inputs = (self.logits * doubt[:, None]).T @ self.logits
        return Curvature.of_product(inputs, matrix / doubt.sum())

    def _temperature_curvature(self, name):
        if self.groups:
            p, u = self._probability, self._mapped
            mean = np.einsum("ij,ij->i", p, u)
            variance = np.einsum("ij,ij,ij->i", p, u, u) - mean**2
        else:
            variance = self._moments.curvature
        strength = self.weight * np.maximum(variance, 0) * self._tau_slope**2
        if name == "free":
            return Curvature.of(np.array([[strength.sum()]]) + 1e-12)
        root = np.sqrt(strength)[:, None].astype(self.features.dtype)
        spread = self.features * root
        # The intercept is free: what it explains is not the kernel's.
        middle = root[:, 0] / max(np.sqrt(strength.sum()), 1e-30)
        spread -= np.outer(middle, middle @ spread)
        return Curvature.of((spread.T @ spread).astype("float64"))


def map_logits(logits, weights):
    """Applies the parts of the map that `weights` names."""
    mapped = logits
    if "vector" in weights:
        mapped = mapped * (1.0 + weights["vector"])
    if "matrix" in weights:
        mapped = mapped + logits @ weights["matrix"]
    if "bias" in weights:
        mapped = mapped + weights["bias"]
    return mapped
