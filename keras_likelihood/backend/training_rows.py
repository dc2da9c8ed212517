"""Reads batches and samples rows from training data of any kind."""

import math
import sys
import types
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.processes import from_first_process
from keras_likelihood.backend.types import Array


def numpy_batches(data: Any) -> Iterator[Any]:
    """Batches of a dataset, such as `tf.data.Dataset`, as NumPy arrays."""
    indexable = hasattr(data, "__len__") and hasattr(data, "__getitem__")
    batches = map(data.__getitem__, range(len(data))) if indexable else data
    yield from map(to_numpy, batches)


def to_numpy(nest: Any) -> Any:
    """A nest of tensors as NumPy arrays. `None` stays."""
    return keras.tree.map_structure(
        lambda v: None if v is None else keras.ops.convert_to_numpy(v), nest
    )


def joined(nests: Any) -> Any:
    """The rows of several nests of arrays, one after the other."""
    return keras.tree.map_structure(lambda *a: np.concatenate(a), *nests)


_MOST_READ = 1024


class Rows:
    """Samples rows of positive weight from the data of `fit`.

    From arrays new rows are sampled each time, from a dataset the first batches
    are read once.
    """

    def __init__(
        self, x: Any, y: Any = None, sample_weight: Any = None, *, seed: int = 0
    ) -> None:
        self._random = np.random.default_rng(seed)
        self._set = None if is_arrays(x) else x
        self._rows, self._asked = {}, 0
        if self._set is None:
            self._rows = to_numpy(_named(x, y, sample_weight))

    @property
    def can_be_read(self) -> bool:
        """Whether the data can be read without consuming them."""
        return not isinstance(self._set, types.GeneratorType)

    def count(self, steps: int | None) -> int | None:
        """Number of rows, of a dataset by the number of batches if known."""
        if not self.can_be_read:
            return None
        if self._set is not None:
            self.draw(_MOST_READ)
            if steps:
                return self._first * steps
        return len(keras.tree.flatten(self._rows)[0])

    def draw(self, most: int) -> dict[str, Any]:
        """At most `most` rows, `{"x": ..., "y": ..., "weight": ...}`.

        Processes that train one model all get the rows of the first process.
        """
        if self._set is not None and self._asked < min(most, _MOST_READ):
            self._asked = min(most, _MOST_READ)
            self._rows, self._first = _first_batches(self._set, self._asked)
        count = len(keras.tree.flatten(self._rows)[0])
        counted = np.arange(count)
        if "weight" in self._rows:
            weights = keras.tree.flatten(self._rows["weight"])
            hits = sum((a > 0).reshape(count, -1).any(axis=1) for a in weights)
            counted = np.flatnonzero(hits) if np.any(hits) else counted
        share = len(counted) / count
        if len(counted) > most:
            counted = self._random.choice(counted, most, replace=False)
            counted = np.sort(counted)
        chosen = keras.tree.map_structure(
            # Keras casts float64 to its default precision.
            lambda a: a[counted].astype(
                keras.config.floatx() if a.dtype == "float64" else a.dtype
            ),
            self._rows,
        )
        if share < 1:
            # Keras divides by the number of rows, including weight 0.
            chosen["weight"] = keras.tree.map_structure(
                lambda a: (a * share).astype("float32"), chosen["weight"]
            )
        return dict(from_first_process(chosen))


def split_rows(nest: Any, share: float) -> Any:
    """Splits arrays; the second part has the last fraction `share` of rows."""
    first = math.floor(len(keras.tree.flatten(nest)[0]) * (1.0 - share))
    return _parts(nest, slice(None, first), slice(first, None))


def split_stratified(nest: Any, y: Any, share: float, seed: int) -> Any:
    """Splits arrays; the second part has the fraction `share` of rows.

    The rows are sorted by target, and one of each `1 / share` is chosen.
    """
    count = len(keras.tree.flatten(nest)[0])
    random = np.random.default_rng(seed)
    order = random.permutation(count)
    if y is not None:
        target = keras.ops.convert_to_numpy(keras.tree.flatten(y)[0])
        target = target.reshape(count, -1)
        # The class of one-hot labels.
        target = target.argmax(axis=1) if target.shape[1] > 1 else target[:, 0]
        order = order[np.argsort(target[order], kind="stable")]
    ends = np.linspace(0, count, max(round(count * share), 1) + 1)
    taken = order[random.integers(np.ceil(ends[:-1]), np.ceil(ends[1:]))]
    return _parts(nest, np.delete(np.arange(count), taken), np.sort(taken))


def _parts(nest: Any, *parts: Any) -> Any:
    return [
        keras.tree.map_structure(
            lambda a, part=part: None if a is None else a[part], nest
        )
        for part in parts
    ]


def split_batches(data: Any, every: int = 10) -> tuple[Any, Any] | None:
    """Splits a dataset: the second part has one of `every` batches.

    A PyTorch `DataLoader` is split by rows. The result is `None` if the dataset
    has one batch or does not give the same batches each time.
    """
    if is_of_torch(data, "DataLoader"):
        return _split_loader(data, every)
    if isinstance(data, keras.utils.PyDataset):
        count, plain = len(data), keras.utils.PyDataset.on_epoch_end
        if count < 2 or type(data).on_epoch_end is not plain:
            return None
        taken = np.arange(count) % every == min(every, count) - 1
        return _Batches(data, ~taken), _Batches(data, taken)
    if not hasattr(data, "cardinality"):
        return None
    return _split_tensorflow(data, every)


class _Batches(keras.utils.PyDataset):
    """Some batches of a dataset."""

    def __init__(self, data: Any, taken: Array) -> None:
        super().__init__(
            workers=data.workers,
            use_multiprocessing=data.use_multiprocessing,
            max_queue_size=data.max_queue_size,
        )
        self._data, self._taken = data, np.flatnonzero(taken)

    def __len__(self) -> int:
        return len(self._taken)

    def __getitem__(self, i: int) -> Any:
        return self._data[int(self._taken[i])]


def _split_loader(data: Any, every: int) -> Any:
    import torch.utils.data as tools

    kind = type(data.sampler)
    count = len(data.dataset) if hasattr(data.dataset, "__len__") else 0
    is_known = kind in (tools.SequentialSampler, tools.RandomSampler)
    if count < every or not is_known:
        return None
    order = np.random.default_rng(0).permutation(count)
    return tuple(
        tools.DataLoader(
            tools.Subset(data.dataset, np.sort(rows).tolist()),
            batch_size=data.batch_size,
            shuffle=kind is tools.RandomSampler,
            num_workers=data.num_workers,
            collate_fn=data.collate_fn,
            drop_last=data.drop_last and len(rows) > data.batch_size,
        )
        for rows in (order[count // every :], order[: count // every])
    )


def _split_tensorflow(data: Any, every: int) -> Any:
    import tensorflow as tf

    count = int(data.cardinality())
    first, again = (
        keras.tree.flatten(next(numpy_batches(data), None)) for _ in "12"
    )
    if count in (0, 1) or not all(map(np.array_equal, first, again)):
        return None
    every = min(every, count) if count > 0 else every
    kept = data.enumerate().filter(lambda i, _: i % every != every - 1)
    kept = kept.map(lambda _, batch: batch)
    if count > 0:
        size = count - count // every
        kept = kept.apply(tf.data.experimental.assert_cardinality(size))
    return kept, data.shard(every, every - 1)


def check_rows(rows: tuple[Any, ...], least_parts: int) -> None:
    """Refuses held-out arrays without rows, or with different numbers."""
    parts = [part for part in rows if part is not None]
    counts = [len(a) for a in keras.tree.flatten(parts)]
    fits = least_parts <= len(parts) <= 3 and len(set(counts)) == 1
    if not fits or not counts[0]:
        raise ValueError(
            "Held-out rows must be `(x, y)` or `(x, y, sample_weight)` with "
            "equally many rows, at least one. "
            f"Received: {len(parts)} part(s) with {counts} rows"
        )


def is_arrays(x: Any) -> bool:
    """Whether `x` is a nest of arrays and not a dataset."""
    leaves = keras.tree.flatten(x)
    return bool(leaves) and all(
        hasattr(leaf, "shape") and hasattr(leaf, "__getitem__")
        for leaf in leaves
    )


def is_of_torch(data: Any, *names: str) -> bool:
    """Whether `data` is an instance of these `torch.utils.data` classes."""
    torch = sys.modules.get("torch.utils.data")
    kinds = tuple(getattr(torch, name) for name in names if torch)
    return isinstance(data, kinds)


def _named(x: Any, y: Any = None, weight: Any = None) -> dict[str, Any]:
    parts = {"x": x, "y": y, "weight": weight}
    return {k: v for k, v in parts.items() if v is not None}


def _first_batches(data: Any, most: int) -> tuple[Any, int]:
    """Rows of the first batches, and the number of rows in the first."""
    read, counts = [], []
    for batch in numpy_batches(data):
        parts = batch if isinstance(batch, tuple | list) else (batch,)
        read.append(_named(*parts))
        counts.append(len(keras.tree.flatten(read[-1])[0]))
        if sum(counts) >= most:
            break
    return joined(read), counts[0]
