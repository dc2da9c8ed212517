"""Curvature of a loss by one weight, as a Kronecker product."""

import math
from typing import Any

import numpy as np

LARGEST_FACTOR = 640
"""A factor of more rows is kept as its diagonal."""

LARGEST_MATRIX = 640
"""Up to so many entries of a weight, their joint curvature is one matrix."""

_MEMORY = 8


def matrix_shape(shape) -> tuple[int, int]:
    """Splits the axes of a weight in two, so that the longer side is short.

    >>> matrix_shape((3, 3, 64, 32))
    (576, 32)
    """
    shape = tuple(shape)
    splits = [
        (math.prod(shape[:i]), math.prod(shape[i:])) for i in range(len(shape))
    ]
    # Of equal ones the last: the inputs of a kernel come first.
    return min(reversed(splits), key=max)


class Curvature:
    """Running estimate of the curvature `H` by the entries of one weight.

        H = num_examples * (left x right) / trace(left)

    With `g` a gradient at a target drawn from the model, written as a matrix,
    `left = E[g g']` and `right = E[g' g]`. For a layer with one output this
    is the Fisher information itself (the Gauss-Newton matrix); for several it
    is its Kronecker approximation (Martens and Grosse, 2015).

    Args:
        shape: shape of the weight.
        num_examples: number of likelihood terms in the training data.
    """

    def __init__(self, shape, num_examples: float):
        self.shape = tuple(shape)
        self.num_examples = num_examples
        self.count = 0
        self._left: Any = None
        self._right: Any = None
        self._eigenvalues: Any = None
        self._matrix: Any = None

    def update(self, left, right, noise: float = 1.0):
        """Averages in factors that were measured at some noise.

        Args:
            left: per likelihood term, a matrix or its diagonal.
            right: the same for the second side.
            noise: scale of the likelihood when they were measured.
        """
        factors = [np.asarray(f, "float64") * noise**2 for f in (left, right)]
        if not all(np.all(np.isfinite(f)) for f in factors):
            return
        self.count += 1
        share = max(1.0 / self.count, 1.0 / _MEMORY)
        if self.count == 1:
            self._left, self._right = factors
        else:
            self._left = self._left + share * (factors[0] - self._left)
            self._right = self._right + share * (factors[1] - self._right)
        self._eigenvalues = self._matrix = None

    @property
    def is_known(self) -> bool:
        return self.count > 0 and _trace(self._left) > 0

    @property
    def is_matrix(self) -> bool:
        """Whether the weight is small enough for `matrix`."""
        return (
            math.prod(self.shape) <= LARGEST_MATRIX
            and self._left.ndim == self._right.ndim == 2
        )

    def eigenvalues(self, noise: float = 1.0):
        """All of them, flat, at a noise of the likelihood."""
        if self._eigenvalues is None:
            sides = [_eigenvalues(f) for f in (self._left, self._right)]
            self._eigenvalues = np.outer(*sides).ravel() * self._size
        return self._eigenvalues / noise**2

    def matrix(self, noise: float = 1.0):
        """The whole of `H`, `(entries, entries)`."""
        if self._matrix is None:
            self._matrix = np.kron(self._left, self._right) * self._size
        return self._matrix / noise**2

    def diagonal(self, noise: float = 1.0):
        """Curvature of every entry by itself, of the weight's shape."""
        sides = [
            f if f.ndim == 1 else np.diagonal(f)
            for f in (self._left, self._right)
        ]
        found = np.outer(*sides) * (self._size / noise**2)
        return found.reshape(self.shape)

    @property
    def _size(self):
        return self.num_examples / _trace(self._left)


def _trace(factor):
    return float(np.sum(factor) if factor.ndim == 1 else np.trace(factor))


def _eigenvalues(factor):
    if factor.ndim == 1:
        return factor
    return np.maximum(np.linalg.eigvalsh(factor), 0.0)
