"""Targets with the index of their training example."""

import zlib
from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.private import why_not_numbered
from keras_likelihood.backend.training_rows import is_of_torch
from keras_likelihood.backend.types import Tensor

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
            - a `torch.utils.data.Dataset` of examples, before its `DataLoader`;
            - a `keras.utils.PyDataset` with the same batches in every epoch.
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
    if index.shape != (count,) or index.dtype.kind not in "iu":
        raise ValueError(
            "`index` must be integers of shape (examples,). Received: "
            f"{index.dtype} of shape {index.shape}, {index.size} entries for "
            f"{count} targets"
        )
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
    if not _has_index(y):
        return y, sample_weight, None
    if isinstance(sample_weight, dict) and TARGET in sample_weight:
        # Keras requires weights in the structure of `y`, and repeats a single
        # array over it.
        sample_weight = sample_weight[TARGET]
    return y[TARGET], sample_weight, y[INDEX]


def carries_index(x: Any, y: Any = None) -> bool | None:
    """Whether the targets of `fit(x, y)` contain an index.

    It is `None` if only reading the data would tell, as for a generator.
    """
    if y is None:
        is_batches = isinstance(x, keras.utils.PyDataset)
        batch = x[0] if is_batches else getattr(x, "element_spec", None)
        if isinstance(batch, list | tuple) and len(batch) > 1:
            y = batch[1]
    return None if y is None else _has_index(y)


def _has_index(y: Any) -> bool:
    return isinstance(y, dict) and INDEX in y


def _indexed_dataset(dataset: Any, index: Tensor) -> Any:
    if index is not None:
        raise ValueError(
            "`index` must be None for a dataset, which is numbered in its own "
            "order. For other numbers, map it to `(x, kl.indexed(...))`. "
            "Received: `index` with a dataset"
        )
    if isinstance(dataset, keras.utils.PyDataset):
        return _NumberedBatches(dataset)
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
    """Adds a number to the targets of an example or batch `(x, y, ...)`."""
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


class _NumberedBatches(keras.utils.PyDataset):
    """A `PyDataset` with indexed targets.

    Batch `i` contains the rows from `i * batch_size` on. Datasets with hooks
    that may change the order between epochs raise an error. Other changes are
    detected by checksums of the targets.
    """

    def __init__(self, dataset: keras.utils.PyDataset) -> None:
        super().__init__(
            workers=dataset.workers,
            use_multiprocessing=dataset.use_multiprocessing,
            max_queue_size=dataset.max_queue_size,
        )
        self._dataset = dataset
        self._marks: dict[int, int] = {}
        kind = type(dataset)
        reasons = [
            f"a dataset with `{name}`"
            for name in ("on_epoch_begin", "on_epoch_end")
            if getattr(kind, name) is not getattr(keras.utils.PyDataset, name)
        ]
        if dataset.num_batches is None:
            reasons.append("an infinite dataset")
        if reasons:
            raise ValueError(
                "`indexed` needs a `PyDataset` with the same batches in every "
                "epoch. Otherwise return `x, kl.indexed(y, index=rows)` from "
                f"`__getitem__`. Received: {reasons[0]}, {kind.__name__}"
            )
        self.batch_size = len(keras.tree.flatten(self._batch(0)[1])[0])

    def __len__(self) -> int:
        return int(self._dataset.num_batches)

    def _batch(self, number: Any) -> Any:
        batch = self._dataset[number]
        if not isinstance(batch, list | tuple) or len(batch) not in (2, 3):
            raise ValueError(
                "`indexed` needs batches (x, y) or (x, y, sample_weight). "
                f"Received: {type(batch).__name__} from __getitem__"
            )
        if _has_index(batch[1]):
            kind = type(self._dataset).__name__
            raise ValueError(
                f"The batches are already indexed. Received: {kind}"
            )
        return batch

    def __getitem__(self, number: Any) -> Any:
        batch = self._batch(number)
        leaves = keras.tree.flatten(batch[1])
        size, last = len(leaves[0]), number == len(self) - 1
        if size > self.batch_size or (size < self.batch_size and not last):
            raise ValueError(
                "`indexed` needs batches of equal size, except for the last. "
                f"Expected: {self.batch_size}. Received: {size} in {number}"
            )
        mark = 0
        for leaf in leaves:
            leaf = keras.ops.convert_to_numpy(leaf)
            mark = zlib.crc32(np.ascontiguousarray(leaf).data, mark)
        if self._marks.setdefault(number, mark) != mark:
            raise ValueError(
                "`indexed` needs batches that are the same in every epoch. "
                f"Received: batch {number} with other targets than before"
            )
        rows = number * self.batch_size + np.arange(size, dtype="int32")
        return _numbered(rows, batch)
