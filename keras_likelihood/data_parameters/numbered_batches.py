"""Datasets of batches or examples that carry the numbers of their rows."""

import zlib

import keras
import numpy as np

INDEX = "keras_likelihood/index"
TARGET = "keras_likelihood/target"


def carries_index(x, y=None) -> bool | None:
    """Whether the targets of `fit(x, y)` carry the numbers of their rows.

    It is `None` for data that must be read to know, such as a generator.
    """
    if y is None and isinstance(x, keras.utils.PyDataset):
        batch = x[0]
        y = batch[1] if isinstance(batch, list | tuple) else None
    elif y is None:
        spec = getattr(x, "element_spec", None)
        y = spec[1] if isinstance(spec, tuple) and len(spec) > 1 else None
    return None if y is None else isinstance(y, dict) and INDEX in y


class NumberedBatches(keras.utils.PyDataset):
    """A `PyDataset` whose batches stay the same, with numbered targets.

    Batch `i` has the rows from `i * batch_size` on. A dataset that may change
    its order between epochs is refused; one that does so unseen is noticed by
    its targets when a batch comes back with others.
    """

    def __init__(self, dataset: keras.utils.PyDataset):
        super().__init__(
            workers=dataset.workers,
            use_multiprocessing=dataset.use_multiprocessing,
            max_queue_size=dataset.max_queue_size,
        )
        self._dataset = dataset
        self._marks: dict = {}
        kind = type(dataset)
        reasons = [
            f"one with `{name}`"
            for name in ("on_epoch_begin", "on_epoch_end")
            if getattr(kind, name) is not getattr(keras.utils.PyDataset, name)
        ]
        if dataset.num_batches is None:
            reasons.append("an endless one")
        if reasons:
            raise ValueError(
                "`indexed` numbers a `PyDataset` whose batches are the same in "
                "every epoch. Let the batches of others carry the numbers of "
                "their rows: return `x, kl.indexed(y, index=rows)` from "
                f"`__getitem__`. Received: {reasons[0]}, {kind.__name__}"
            )
        self.batch_size = len(keras.tree.flatten(self._batch(0)[1])[0])

    def __len__(self):
        return self._dataset.num_batches

    def _batch(self, number):
        batch = self._dataset[number]
        if not isinstance(batch, list | tuple) or len(batch) not in (2, 3):
            raise ValueError(
                "`indexed` needs batches (x, y) or (x, y, sample_weight). "
                f"Received: {type(batch).__name__} from __getitem__"
            )
        if carries_index(None, batch[1]):
            kind = type(self._dataset).__name__
            raise ValueError(
                f"The batches carry numbers already. Received: {kind}"
            )
        return batch

    def __getitem__(self, number):
        x, y, *weight = self._batch(number)
        leaves = keras.tree.flatten(y)
        size, last = len(leaves[0]), number == len(self) - 1
        if size > self.batch_size or (size < self.batch_size and not last):
            raise ValueError(
                "`indexed` needs batches of one size, but for the last. "
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
        return x, {INDEX: rows, TARGET: y}, *weight


class NumberedExamples:
    """A `torch.utils.data.Dataset` with numbered targets."""

    def __init__(self, dataset):
        self._dataset = dataset

    def __len__(self):
        return len(self._dataset)

    def __getitem__(self, number):
        x, y, *weight = self._dataset[number]
        return x, {INDEX: number, TARGET: y}, *weight
