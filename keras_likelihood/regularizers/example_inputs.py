"""Takes a few inputs from training data of any kind."""

import math
import types

import keras
import numpy as np

from keras_likelihood.backend.processes import from_first_process


class ExampleInputs:
    """Draws inputs from the `x` that is given to `fit`.

    From arrays new rows are drawn each time. Of a data set (`tf.data.Dataset`,
    `PyDataset`, PyTorch `DataLoader`) the first batches are read once.

    Args:
        x: the first argument of `fit`.
        largest: number of examples that suffice.
        seed: the random seed of the draws.
        y: the targets, if `x` are arrays.
    """

    def __init__(self, x, largest: int = 1024, seed: int = 0, y=None):
        self.largest = largest
        self._random = np.random.default_rng(seed)
        self._is_set = not _is_arrays(x)
        self._data = x
        self._targets = y if _is_arrays(y) else None

    @property
    def can_be_read(self) -> bool:
        """Whether reading leaves the data to training as they were."""
        return not isinstance(self._data, types.GeneratorType)

    def draw(self) -> tuple:
        """Returns `(x, count)`, a nest of arrays with `count` rows.

        Processes that train one model all get what the first one draws.
        """
        self._read()
        x = from_first_process(self._take(self._data, self._rows()))
        return x, len(keras.tree.flatten(x)[0])

    def draw_with_targets(self) -> tuple | None:
        """Returns `(x, y)`, two nests of arrays; `None` without targets."""
        self._read()
        if self._targets is None:
            return None
        rows = self._rows()
        both = self._take(self._data, rows), self._take(self._targets, rows)
        return tuple(map(from_first_process, both))

    def _read(self):
        if self._is_set:
            self._data, self._targets = self._first_batches()
            self._is_set = False

    def _rows(self):
        """The rows to take, `None` for all."""
        count = len(keras.tree.flatten(self._data)[0])
        if count <= self.largest:
            return None
        rows = self._random.choice(count, self.largest, replace=False)
        return np.sort(rows)

    def _take(self, nest, rows):
        if rows is None:
            return nest
        return keras.tree.map_structure(lambda a: a[rows], nest)

    def _first_batches(self):
        found, targets, count = [], [], 0
        for batch in _batches(self._data):
            parts = batch if isinstance(batch, tuple | list) else (batch, None)
            inputs = keras.tree.map_structure(_to_numpy, parts[0])
            found.append(inputs)
            targets.append(keras.tree.map_structure(_to_numpy, parts[1]))
            count += len(keras.tree.flatten(inputs)[0])
            if count >= self.largest:
                break
        return _joined(found), _joined(targets)


def training_part(nest, validation_split: float = 0.0):
    """The first rows of arrays, which `fit` does not validate with."""
    if not validation_split or not _is_arrays(nest):
        return nest
    count = len(keras.tree.flatten(nest)[0])
    count = int(math.floor(count * (1.0 - validation_split)))
    return keras.tree.map_structure(lambda a: a[:count], nest)


def known_steps(
    x=None, batch_size=None, epochs=1, steps_per_epoch=None, **_
) -> int:
    """Number of steps that `fit` will make with these arguments, 0 if unknown.

    A validation split is not taken off.
    """
    if steps_per_epoch is None:
        steps_per_epoch = _steps_of_epoch(x, batch_size or 32)
    return epochs * steps_per_epoch


def _steps_of_epoch(x, batch_size):
    if isinstance(x, keras.utils.PyDataset):
        return x.num_batches or 0
    leaves = keras.tree.flatten(x)
    if leaves and _is_arrays(x):
        return math.ceil(len(leaves[0]) / batch_size)
    try:
        return len(x)
    except TypeError:
        # A generator, or a data set that does not know its length.
        return 0


def _joined(nests):
    if nests[0] is None:
        return None
    return keras.tree.map_structure(lambda *a: np.concatenate(a), *nests)


def _is_arrays(x):
    return all(
        hasattr(leaf, "shape") and hasattr(leaf, "__getitem__")
        for leaf in keras.tree.flatten(x)
    )


def _batches(data):
    if isinstance(data, keras.utils.PyDataset):
        for i in range(data.num_batches or 0):
            yield data[i]
    else:
        yield from data


def _to_numpy(leaf):
    return None if leaf is None else keras.ops.convert_to_numpy(leaf)
