"""Curvature of a negative log-likelihood with respect to some weights."""

import dataclasses
import functools
import math

import numpy as np

LARGEST_MATRIX = 640
"""The joint curvature of more entries than this is not written out."""


@dataclasses.dataclass(frozen=True)
class Curvature:
    """A Gauss-Newton matrix, `factor * left` or `factor * (left x right)`.

    Args:
        left: matrix `(rows, rows)`, or its diagonal `(rows,)`.
        right: the same for the columns of the weights in a Kronecker product,
            or `None`.
        factor: number that multiplies the product.
    """

    left: np.ndarray
    right: np.ndarray | None = None
    factor: float = 1.0

    @classmethod
    def of_product(cls, left, right):
        """The Kronecker product of the curvatures of rows and columns."""
        return cls(left, right)

    def scaled(self, factor: float) -> "Curvature":
        """The same curvature for `factor` times as many rows of data."""
        scaled = dataclasses.replace(self, factor=self.factor * factor)
        # The eigenvectors are the same, and finding them is the work.
        for name in ("_rows", "_columns"):
            if name in self.__dict__:
                scaled.__dict__[name] = self.__dict__[name]
        return scaled

    @property
    def values(self):
        """Eigenvalues, `(rows,)` or `(rows, columns)`."""
        values = self._rows[0]
        if self.right is not None:
            values = np.multiply.outer(values, self._columns[0])
        return values * self.factor

    def to_coordinates(self, weights):
        """Weights in the eigenbasis."""
        return self._turned(weights, lambda vectors: vectors.T)

    def to_weights(self, coordinates):
        """The inverse of `to_coordinates`."""
        return self._turned(coordinates, lambda vectors: vectors)

    def diagonal(self):
        """Curvature of every entry by itself, of the shape of `values`."""
        rows = _diagonal(self.left)
        if self.right is not None:
            rows = np.multiply.outer(rows, _diagonal(self.right))
        return rows * self.factor

    @property
    def is_small(self) -> bool:
        """Whether `matrix` can be written out."""
        sides = [f for f in (self.left, self.right) if f is not None]
        size = math.prod(len(f) for f in sides)
        return size <= LARGEST_MATRIX and all(f.ndim == 2 for f in sides)

    def matrix(self):
        """The whole matrix, `(entries, entries)`."""
        if self.right is None:
            return self.left * self.factor
        return np.kron(self.left, self.right) * self.factor

    def _turned(self, weights, direction):
        vectors = self._rows[1]
        if vectors is not None:
            weights = direction(vectors) @ weights
        if self.right is not None and self._columns[1] is not None:
            weights = weights @ direction(self._columns[1]).T
        return weights

    @functools.cached_property
    def _rows(self):
        return _eigen(self.left)

    @functools.cached_property
    def _columns(self):
        return _eigen(self.right)


def _eigen(matrix):
    """`(eigenvalues, eigenvectors)`; no vectors for a diagonal."""
    if matrix.ndim == 1:
        return np.maximum(matrix, 0.0), None
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values, 0.0), vectors


def _diagonal(matrix):
    return matrix if matrix.ndim == 1 else np.diagonal(matrix)
