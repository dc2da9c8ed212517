"""The objective of a predicted temperature.

    logits' = z / T,    T = f(sum_g x_g w_g + c)

`z` are logits already divided by their global temperature and `x_g` are
standardised columns. If all weights are zero, the result is GlobalScaling. The
softmax and its gradients are computed in one pass.
"""

import numpy as np

from keras_likelihood.evidence import Curvature
from keras_likelihood.recalibration.moments import softmax_moments


class TemperedSoftmax:
    """Summed NLL of tempered logits, its gradients and curvatures.

    Args:
        logits: `z` above, `(rows, classes)`.
        labels: class numbers `(rows,)`.
        columns: dict of group names to `x_g`, `(rows, columns)`.
        link: the map `f` with its derivative.
        weight: `(rows,)`, or `None`.
    """

    def __init__(self, logits, labels, columns, link, weight=None):
        self.logits = logits
        self.labels = labels
        self.columns = columns
        self.link = link
        self.weight = np.ones(len(labels)) if weight is None else weight
        self.shapes = {name: (x.shape[1],) for name, x in columns.items()}
        self.shapes["free"] = (1,)

    def evaluate(self, weights):
        """Returns the NLL and its gradients by group."""
        temperature, slope = self.link(linear_part(self.columns, weights))
        self._tau_slope = -slope / temperature**2
        at = softmax_moments(self.logits, self.labels, 1 / temperature)
        self._curvature = at.curvature
        gradient = self.weight * at.slope * self._tau_slope
        gradients = {
            name: (x.T @ gradient.astype(x.dtype)).astype("float64")
            for name, x in self.columns.items()
        }
        gradients["free"] = np.array([gradient.sum()])
        return float(self.weight @ at.nll), gradients

    def curvature(self, name):
        """Gauss-Newton curvature of a group at the last evaluation."""
        strength = self.weight * self._curvature * self._tau_slope**2
        if name == "free":
            return Curvature.of(np.array([[strength.sum()]]) + 1e-12)
        x = self.columns[name]
        root = np.sqrt(strength)[:, None].astype(x.dtype)
        weighted = x * root
        # The intercept has no prior. Its part is removed from the curvature.
        middle = root[:, 0] / max(np.sqrt(strength.sum()), 1e-30)
        weighted -= np.outer(middle, middle @ weighted)
        return Curvature.of((weighted.T @ weighted).astype("float64"))


def linear_part(columns, weights):
    """`sum_g x_g w_g + c`, in float64."""
    linear = weights["free"][0]
    for name, x in columns.items():
        product = x @ weights[name].astype(x.dtype)
        linear = linear + product.astype("float64")
    return linear
