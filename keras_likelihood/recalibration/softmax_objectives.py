"""The objectives of a predicted temperature and of a map of the logits.

If all weights are zero, the result of both is GlobalScaling.
"""

import numpy as np

from keras_likelihood.evidence import Curvature
from keras_likelihood.recalibration.network import LinkedObjective
from keras_likelihood.recalibration.softmax_moments import softmax_moments


def tempered_softmax(z, labels, columns, link, weight=None) -> LinkedObjective:
    """The objective of `z / T`, with `T = f(sum_g x_g w_g + c)`.

    `z`, `(rows, classes)`, are logits after GlobalScaling.
    """

    def by_temperature(temperature, rows):
        at = softmax_moments(z[rows], labels[rows], 1 / temperature)
        tau_slope = -1 / temperature**2
        return at.nll, at.slope * tau_slope, at.curvature * tau_slope**2

    return LinkedObjective(by_temperature, columns, link, weight)


class MappedSoftmax:
    """Summed NLL of mapped logits, its gradients and curvatures.

        logits' = z (1 + v) + z D + b + x W

    `z` are log-probabilities, `(rows, classes)`, and `x` standardised
    features. `groups` names which of `v` (vector), `D` (matrix), `b` (bias)
    and `W` (features) there are.
    """

    def __init__(self, logits, labels, groups, features=None, weight=None):
        self.logits = logits
        self.labels = labels
        self.features = features
        weight = np.ones(len(labels)) if weight is None else weight
        self.weight = weight.astype(logits.dtype)
        classes = logits.shape[1]
        every = {
            "bias": (classes,),
            "vector": (classes,),
            "matrix": (classes, classes),
        }
        if features is not None:
            every["features"] = (features.shape[1], classes)
        self.shapes = {name: every[name] for name in groups}

    def evaluate(self, weights):
        """Returns the NLL and its gradients by group."""
        rows = np.arange(len(self.labels))
        p = map_logits(self.logits, weights, self.features)
        if p is self.logits:
            p = p.copy()
        p -= p.max(axis=1, keepdims=True)
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
        return Curvature.of_product(
            inputs.astype("float64"), (matrix / doubt.sum()).astype("float64")
        )


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
