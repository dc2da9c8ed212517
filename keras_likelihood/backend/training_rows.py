"""Reads batches and samples rows from training data of any kind."""

import math
import sys
import types
from collections.abc import Iterator

import keras
import numpy as np

from keras_likelihood.backend.processes import from_first_process


def numpy_batches(data) -> Iterator:
    """Batches of a dataset, such as `tf.data.Dataset`, as NumPy arrays."""
    indexable = hasattr(data, "__len__") and hasattr(data, "__getitem__")
    batches = map(data.__getitem__, range(len(data))) if indexable else data
    yield from map(_to_numpy, batches)


def _to_numpy(nest):
    return keras.tree.map_structure(keras.ops.convert_to_numpy, nest)


_MOST_READ = 1024


class Rows:
    """Samples rows of positive weight from the data of `fit`.

    From arrays new rows are sampled each time. From a dataset
    (`tf.data.Dataset`, `PyDataset`, PyTorch `DataLoader`) the first batches are
    read once.
    """

    def __init__(self, x, y=None, sample_weight=None, *, seed: int = 0):
        self._random = np.random.default_rng(seed)
        self._set = None if is_arrays(x) else x
        given = {} if self._set is not None else _named(x, y, sample_weight)
        self._rows = _to_numpy(given)

    @property
    def can_be_read(self) -> bool:
        """Whether the data can be read without consuming them."""
        return not isinstance(self._set, types.GeneratorType)

    @property
    def terms(self) -> int | None:
        """Number of targets in arrays, or `None` for datasets."""
        if self._set is not None or "y" not in self._rows:
            return None
        return max(a.size for a in keras.tree.flatten(self._rows["y"]))

    def draw(self, most: int) -> dict:
        """At most `most` rows, `{"x": ..., "y": ..., "weight": ...}`.

        Processes that train one model all get the rows of the first process.
        """
        if not self._rows:
            self._rows = _first_batches(self._set, min(most, _MOST_READ))
        count = len(keras.tree.flatten(self._rows)[0])
        counted = np.arange(count)
        if "weight" in self._rows:
            counted = counted[_counts(self._rows["weight"], count)]
        share = len(counted) / count
        if len(counted) > most:
            counted = self._random.choice(counted, most, replace=False)
            counted = np.sort(counted)
        chosen = keras.tree.map_structure(
            lambda a: _as_fit_does(a[counted]), self._rows
        )
        if share < 1:
            # Keras divides by the number of rows, including weight 0.
            chosen["weight"] = keras.tree.map_structure(
                lambda a: (a * share).astype("float32"), chosen["weight"]
            )
        return from_first_process(chosen)


def split_rows(nest, share: float):
    """Splits arrays; the second part has the last fraction `share` of rows."""
    first = int(math.floor(len(keras.tree.flatten(nest)[0]) * (1.0 - share)))

    def rows(part):
        return keras.tree.map_structure(
            lambda a: None if a is None else a[part], nest
        )

    return rows(slice(None, first)), rows(slice(first, None))


def check_rows(rows: tuple, least_parts: int):
    """Refuses held-out arrays without rows, or with different numbers."""
    given = [part for part in rows if part is not None]
    counts = [len(a) for a in keras.tree.flatten(given)]
    fits = least_parts <= len(given) <= 3 and len(set(counts)) == 1
    if not fits or not counts[0]:
        raise ValueError(
            "Held-out rows must be `(x, y)` or `(x, y, sample_weight)` with "
            "equally many rows, at least one. "
            f"Received: {len(given)} part(s) with {counts} rows"
        )


def is_arrays(x) -> bool:
    """Whether `x` is a nest of arrays and not a dataset."""
    leaves = keras.tree.flatten(x)
    return bool(leaves) and all(
        hasattr(leaf, "shape") and hasattr(leaf, "__getitem__")
        for leaf in leaves
    )


def is_of_torch(data, *names: str) -> bool:
    """Whether `data` is an instance of these `torch.utils.data` classes."""
    torch = sys.modules.get("torch.utils.data")
    kinds = [getattr(torch, name) for name in names] if torch else []
    return isinstance(data, tuple(kinds))


def _counts(weight, count):
    """Mask of the rows with a positive weight; all rows if there is none."""
    leaves = [a.reshape(count, -1) for a in keras.tree.flatten(weight)]
    found = np.any(np.hstack(leaves) > 0, axis=1)
    return found if found.any() else ~found


def _as_fit_does(array):
    # Keras casts float64 to its default precision.
    is_double = array.dtype == "float64"
    return array.astype(keras.config.floatx()) if is_double else array


def _named(x, y=None, weight=None):
    parts = {"x": x, "y": y, "weight": weight}
    return {k: v for k, v in parts.items() if v is not None}


def _first_batches(data, most):
    found, count = [], 0
    for batch in numpy_batches(data):
        parts = batch if isinstance(batch, tuple | list) else (batch,)
        found.append(_named(*parts))
        count += len(keras.tree.flatten(found[-1])[0])
        if count >= most:
            break
    return keras.tree.map_structure(lambda *a: np.concatenate(a), *found)
