"""Curvature of a negative log-likelihood with respect to some weights."""

import dataclasses
import functools

import numpy as np

_outer = functools.partial(functools.reduce, np.multiply.outer)


@dataclasses.dataclass(frozen=True)
class Curvature:
    """A Gauss-Newton matrix, `factor * left` or `factor * (left x right)`.

    `left` and `right` belong to the rows and the columns of the weights. Each
    is a matrix or its diagonal.
    """

    left: np.ndarray
    right: np.ndarray | None = None
    factor: float = 1.0
    # Scaled copies share the eigenvectors, which are expensive to compute.
    _known: list = dataclasses.field(default_factory=list, repr=False)

    def scaled(self, factor: float) -> "Curvature":
        """The same curvature for `factor` times as many rows of data."""
        return dataclasses.replace(self, factor=self.factor * factor)

    @property
    def _sides(self):
        return [self.left] if self.right is None else [self.left, self.right]

    @property
    def _eigen(self):
        """Eigenvalues and eigenvectors of each side; `None` for a diagonal."""
        if not self._known:
            for side in self._sides:
                found = (side, None) if side.ndim == 1 else np.linalg.eigh(side)
                self._known.append((np.maximum(found[0], 0.0), found[1]))
        return self._known

    @property
    def values(self):
        """Eigenvalues, `(rows,)` or `(rows, columns)`."""
        return _outer([values for values, _ in self._eigen]) * self.factor

    def to_coordinates(self, weights):
        """Weights in the eigenbasis."""
        return self._turned(weights, np.transpose)

    def to_weights(self, coordinates):
        """The inverse of `to_coordinates`."""
        return self._turned(coordinates, np.asarray)

    def _turned(self, weights, direction):
        (_, rows), *columns = self._eigen
        if rows is not None:
            weights = direction(rows) @ weights
        for _, vectors in columns:
            if vectors is not None:
                weights = weights @ direction(vectors).T
        return weights
