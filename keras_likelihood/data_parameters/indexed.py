"""Targets with the index of their training example."""

from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.private import why_not_numbered
from keras_likelihood.backend.training_rows import is_of_torch
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.checks import check_argument

INDEX = "keras_likelihood/index"
TARGET = "keras_likelihood/target"


def indexed(y: Any, *, index: Any = None) -> Any:
    """Adds the index of each training example to targets or a dataset.

    Keras shuffles and batches the index with the targets, and a
    `DataParameter` selects its rows by the index.

    ```python
    model.fit(x, kl.indexed(y))
    dataset = kl.indexed(tfds.load("mnist", split="train", as_supervised=True))
    model.fit(dataset.shuffle(1000).batch(64))
    model.fit(x, kl.indexed(y, index=y))  # one row per class
    ```

    Args:
        y: one of

            - an array of targets `(examples, ...)`, or a structure of arrays;
            - a `tf.data.Dataset` of single examples `(x, y)` or
              `(x, y, sample_weight)`, before `shuffle` and `batch`, because
              every epoch must have the same order;
            - a `torch.utils.data.Dataset` of examples, before its `DataLoader`.

            A `keras.utils.PyDataset` returns `x, kl.indexed(y, index=rows)`.
        index: row numbers `(examples,)`, integers `>= 0`. Defaults to
            0, 1, 2, ...
    """
    if (
        hasattr(y, "element_spec")
        or isinstance(y, keras.utils.PyDataset)
        or is_of_torch(y, "Dataset", "DataLoader")
    ):
        return _indexed_dataset(y, index)
    first = y
    while isinstance(first, dict | tuple):
        first = [*(first.values() if isinstance(first, dict) else first)][0]
    count = len(first)
    index = np.arange(count) if index is None else np.asarray(index)
    if index.ndim == 2 and index.shape[1] == 1:
        index = index[:, 0]
    fits = index.shape == (count,) and index.dtype.kind in "iu"
    received = f"{index.dtype} of shape {index.shape} for {count} targets"
    check_argument("index", received, fits, "integers of shape (examples,)")
    if index.dtype == "uint64":
        index = np.minimum(index, np.uint64(2**63 - 1))
    index, limit = index.astype("int64"), np.iinfo("int32")
    # JAX would drop the upper bits. There a clipped index is beyond any table.
    is_small = index.max(initial=0) <= limit.max
    if is_small or keras.backend.backend() == "jax":
        index = index.clip(limit.min, limit.max).astype("int32")
    return {INDEX: index, TARGET: y}


def split_index(y: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    """`(y, sample_weight, index)`; `index` is `None` for plain targets."""
    if not has_index(y):
        return y, sample_weight, None
    if isinstance(sample_weight, dict) and TARGET in sample_weight:
        # Keras requires weights in the structure of `y`, and repeats a single
        # array over it.
        sample_weight = sample_weight[TARGET]
    return y[TARGET], sample_weight, y[INDEX]


def indices(x: Any, y: Any = None) -> list[Any] | None:
    """The indices in the targets of `fit(x, y)`; `None` if unknown."""
    if y is None:
        is_batches = isinstance(x, keras.utils.PyDataset)
        batch = x[0] if is_batches else getattr(x, "element_spec", None)
        if not isinstance(batch, list | tuple) or len(batch) < 2:
            return None
        y = batch[1]
    if has_index(y):
        return [y[INDEX]]
    parts = y.values() if isinstance(y, dict) else y
    nested = isinstance(y, dict | list | tuple)
    return [part[INDEX] for part in parts if has_index(part)] if nested else []


def has_index(y: Any) -> bool:
    """Whether targets come from `indexed`."""
    return isinstance(y, dict) and INDEX in y


def _indexed_dataset(dataset: Any, index: Tensor) -> Any:
    allowed = "None for a dataset, which is numbered in its own order"
    check_argument("index", type(index).__name__, index is None, allowed)
    if isinstance(dataset, keras.utils.PyDataset):
        raise ValueError(
            "The rows of a `PyDataset` are not known. Return "
            "`x, kl.indexed(y, index=rows)` from its `__getitem__`. "
            f"Received: {type(dataset).__name__}"
        )
    if is_of_torch(dataset, "DataLoader", "IterableDataset"):
        raise ValueError(
            "`indexed` needs a `Dataset` with `__len__` and `__getitem__`. "
            "Call it before the `DataLoader`: "
            "`DataLoader(kl.indexed(dataset), shuffle=True)`. "
            f"Received: {type(dataset).__name__}"
        )
    if is_of_torch(dataset, "Dataset"):
        return _NumberedExamples(dataset)
    if reason := why_not_numbered(dataset):
        raise ValueError(
            "`indexed` needs single examples in a fixed order. Call it "
            f"before `shuffle` and `batch`. Received: {reason}"
        )
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) not in (2, 3):
        raise ValueError(
            "`indexed` needs a dataset of (x, y) or (x, y, sample_weight). "
            "With TFDS, pass `split=...` and `as_supervised=True` to `load`. "
            f"Received: elements {spec}"
        )
    return dataset.enumerate().map(_numbered)


def _numbered(number: Any, element: Any) -> tuple[Any, ...]:
    """Adds a number to the target of an example `(x, y, ...)`."""
    x, y, *weight = element
    return (x, {INDEX: number, TARGET: y}, *weight)


class _NumberedExamples:
    """A `torch.utils.data.Dataset` with indexed targets."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, number: Any) -> Any:
        return _numbered(number, self._dataset[number])
