"""Targets that know which training example they belong to."""

import keras
import numpy as np

from keras_likelihood.backend import datasets
from keras_likelihood.data_parameters.numbered_batches import (
    INDEX,
    TARGET,
    NumberedBatches,
    NumberedExamples,
)


def indexed(y, *, index=None):
    """Attaches to every target the number of its training example.

    The number travels with the target through Keras' shuffling and batching
    and tells a `DataParameter` which of its rows to use. It is an integer all
    the way.

    ```python
    model.fit(x, kl.indexed(y))
    dataset = kl.indexed(tfds.load("mnist", split="train", as_supervised=True))
    model.fit(dataset.shuffle(1000).batch(64))
    model.fit(x, kl.indexed(y, index=y))  # one a class
    ```

    Args:
        y: target array `(examples, ...)`, or a structure of such arrays; or
            a `tf.data.Dataset` of single examples `(x, y)` or
            `(x, y, sample_weight)` in an order that every epoch repeats, so
            before `shuffle` and `batch`; or a `torch.utils.data.Dataset` of
            such examples, before its `DataLoader`; or a
            `keras.utils.PyDataset` whose batches stay the same.
        index: row numbers `(examples,)`, integers `>= 0`. Defaults to
            0, 1, 2, ...

    Returns:
        Targets for `fit`, or the dataset with such targets.
    """
    if (
        hasattr(y, "element_spec")
        or isinstance(y, keras.utils.PyDataset)
        or datasets.is_of_torch(y, "Dataset", "DataLoader")
    ):
        return _indexed_dataset(y, index)
    first = y
    while isinstance(first, dict | tuple):
        first = [*(first.values() if isinstance(first, dict) else first)][0]
    count = len(first)
    index = np.arange(count) if index is None else np.asarray(index)
    if index.ndim == 2 and index.shape[1] == 1:
        index = index[:, 0]
    if index.shape != (count,) or index.dtype.kind not in "iu":
        raise ValueError(
            "`index` must be integers of shape (examples,). Received: "
            f"{index.dtype} of shape {index.shape}, {index.size} entries for "
            f"{count} targets"
        )
    # JAX has no 64-bit integers by default; every table that fits a device
    # has row numbers within 32.
    is_small = not count or index.max() <= np.iinfo("int32").max
    return {INDEX: index.astype("int32" if is_small else "int64"), TARGET: y}


def split_index(y, sample_weight=None):
    """`(y, sample_weight, index)`; the last is `None` for plain targets."""
    if not isinstance(y, dict) or INDEX not in y:
        return y, sample_weight, None
    if isinstance(sample_weight, dict) and TARGET in sample_weight:
        # Weights have the structure of `y`: Keras asks for it, and repeats
        # one array over it.
        sample_weight = sample_weight[TARGET]
    return y[TARGET], sample_weight, y[INDEX]


def _indexed_dataset(dataset, index):
    if index is not None:
        raise ValueError(
            "A dataset is numbered in its own order; map it to "
            "`(x, kl.indexed(...))` yourself for other numbers. "
            "Received: `index` with a dataset"
        )
    if isinstance(dataset, keras.utils.PyDataset):
        return NumberedBatches(dataset)
    if datasets.is_of_torch(dataset, "DataLoader", "IterableDataset"):
        raise ValueError(
            "`indexed` numbers the examples of a `Dataset` with `__len__` and "
            "`__getitem__`: call it before the `DataLoader`, "
            "`DataLoader(kl.indexed(dataset), shuffle=True)`. "
            f"Received: {type(dataset).__name__}"
        )
    if datasets.is_of_torch(dataset, "Dataset"):
        return NumberedExamples(dataset)
    if reason := datasets.why_not_numbered(dataset):
        raise ValueError(
            "`indexed` numbers single examples in a fixed order: call it "
            f"before `shuffle` and `batch`. Received: {reason}"
        )
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise ValueError(
            "`indexed` needs a dataset of (x, y) or (x, y, sample_weight); "
            "with TFDS pass `split=...` and `as_supervised=True` to `load`. "
            f"Received: elements {spec}"
        )

    def attach(number, element):
        x, y, *weight = element
        return (x, {INDEX: number, TARGET: y}, *weight)

    return dataset.enumerate().map(attach)
