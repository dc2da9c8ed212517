"""The objective of a regressor's predicted scale.

The normal density and its derivatives are computed together.
"""

import numpy as np

from keras_likelihood.evidence import Curvature


class NormalScale:
    """Summed normal NLL as a function of the weights of the scale.

        nll = z^2 / (2 s^2) + log s,    s = f(x w + c)

    Args:
        z: residuals over their present scale, `(rows,)`.
        x: standardised features, `(rows, columns)`.
        link: the map `f` with its derivative.
        weight: `(rows,)`.
    """

    def __init__(self, z, x, link, weight):
        self.square = z**2
        self.x = x
        self.link = link
        self.weight = weight
        self.shapes = {"scale": (x.shape[1],), "free": (1,)}

    def evaluate(self, weights):
        """Returns the NLL and its gradients by group."""
        eta = self.x @ weights["scale"] + weights["free"][0]
        nll, gradient = self.by_row(eta, slice(None))
        # Fisher information of log s is 2 for every row.
        scale, slope = self.link(eta)
        self._information = 2 * self.weight * (slope / scale) ** 2
        return nll.sum(), {
            "scale": self.x.T @ gradient,
            "free": np.array([gradient.sum()]),
        }

    def by_row(self, eta, rows):
        """The weighted NLL of some rows and its derivative in `eta`."""
        scale, slope = self.link(eta)
        square, weight = self.square[rows], self.weight[rows]
        nll = 0.5 * square / scale**2 + np.log(scale)
        gradient = (1 - square / scale**2) * slope / scale
        return weight * nll, weight * gradient

    def curvature(self, name):
        """Expected curvature of a group at the last evaluation."""
        total = self._information.sum()
        if name == "free":
            return Curvature.of(np.array([[total]]) + 1e-12)
        root = np.sqrt(self._information)
        weighted = self.x * root[:, None]
        middle = root / np.sqrt(total)
        weighted -= np.outer(middle, middle @ weighted)
        return Curvature.of(weighted.T @ weighted)
