"""Names of types in annotations."""

from typing import Any, TypeAlias

import numpy as np

Tensor: TypeAlias = Any
"""A tensor of the backend, a `keras.KerasTensor`, or what becomes one."""

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

Shape: TypeAlias = tuple[int | None, ...]
"""A shape, in which `None` is an axis of unknown length."""
