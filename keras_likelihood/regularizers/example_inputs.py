"""Takes a few inputs from training data of any kind."""

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
    """

    def __init__(self, x, largest: int = 1024, seed: int = 0):
        self.largest = largest
        self._random = np.random.default_rng(seed)
        self._is_set = not _is_arrays(x)
        self._data = x

    @property
    def can_be_read(self) -> bool:
        """Whether reading leaves the data to training as they were."""
        return not isinstance(self._data, types.GeneratorType)

    def draw(self) -> tuple:
        """Returns `(x, count)`, a nest of arrays with `count` rows.

        Processes that train one model all get what the first one draws.
        """
        x = from_first_process(self._draw())
        return x, len(keras.tree.flatten(x)[0])

    def _draw(self):
        if self._is_set:
            self._data, self._is_set = self._first_batches(), False
        count = len(keras.tree.flatten(self._data)[0])
        if count <= self.largest:
            return self._data
        rows = self._random.choice(count, self.largest, replace=False)
        rows = np.sort(rows)
        return keras.tree.map_structure(lambda a: a[rows], self._data)

    def _first_batches(self):
        found, count = [], 0
        for batch in _batches(self._data):
            inputs = batch[0] if isinstance(batch, tuple | list) else batch
            inputs = keras.tree.map_structure(_to_numpy, inputs)
            found.append(inputs)
            count += len(keras.tree.flatten(inputs)[0])
            if count >= self.largest:
                break
        return keras.tree.map_structure(lambda *a: np.concatenate(a), *found)


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
    return keras.ops.convert_to_numpy(leaf)
