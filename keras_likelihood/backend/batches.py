"""Batches of any kind of data set as NumPy arrays."""

from collections.abc import Iterator

import keras


def numpy_batches(data) -> Iterator:
    """Batches of a data set, a `tf.data` one included, as NumPy arrays."""
    indexable = hasattr(data, "__len__") and hasattr(data, "__getitem__")
    batches = map(data.__getitem__, range(len(data))) if indexable else data
    for batch in batches:
        yield keras.tree.map_structure(keras.ops.convert_to_numpy, batch)
