"""Logits that stay on disk and are read block by block."""

import concurrent.futures
import mmap

import numpy as np

from keras_likelihood.recalibration.inputs import (
    as_logits,
    bounded_logits,
)
from keras_likelihood.recalibration.softmax_moments import threads

IN_MEMORY = 2**30
"""Bytes of a file up to which any recalibrator reads it as a whole."""
_COPIES = 8
"""Times that a fit may hold all logits; who can read blocks saves that."""
_BLOCK = 2**21
"""Numbers of a block: it and its copies stay far below a gigabyte."""
_KEPT = 2**28
"""Bytes of a file that may stay mapped."""


class StoredLogits:
    """The rows of a memory-mapped array, made logits where they are read.

    `change`, if it is given, is applied to every block of logits.
    """

    dtype = np.dtype("float32")

    def __init__(self, values, from_logits=True, change=None):
        self.values = values
        self.from_logits = from_logits
        self.change = change
        self.shape = values.shape
        self._served = 0

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, part):
        block = bounded_logits(self.read(part), self.from_logits)
        block = block.astype(self.dtype, copy=False)
        return block if self.change is None else self.change(block)

    def read(self, part: slice) -> np.ndarray:
        """Copy of some rows as the file has them."""
        begin, end, step = part.indices(len(self))
        size = self.values[:1].nbytes
        # Far rows too bring their neighbours along from the disk.
        span = max(1, _KEPT // (size * step)) * step
        pieces = []
        for at in range(begin, max(end, begin + 1), span):
            last = min(at + span, end)
            pieces.append(np.array(self.values[at:last:step]))
            self._forget(size * (last - at))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def check(self):
        """Raises unless all rows are finite, and logits or probabilities.

        Rows of logits may sum to one by chance, a whole file cannot: what
        `from_logits` says must hold for the first block.
        """
        as_logits(self.read(self.blocks()[0]), self.from_logits)

        def count(part):
            raw = self.read(part)
            return int(np.size(raw) - np.isfinite(raw).sum())

        wrong = sum(each_block(count, self.blocks()))
        if wrong:
            raise ValueError(
                f"`logits` must be finite. Received: {wrong} NaN or infinite "
                "values"
            )

    def changed(self, change):
        """The same rows, each block of which goes through `change`."""
        return StoredLogits(self.values, self.from_logits, change)

    def blocks(self) -> list[slice]:
        """The rows in pieces that fit the memory easily."""
        step = max(1, _BLOCK // self.shape[1])
        return [slice(at, at + step) for at in range(0, len(self), step)]

    def _forget(self, count):
        # Pages once read count as memory of the process until they are
        # given back. Copies on write would be lost: those stay.
        self._served += count
        if self._served < _KEPT or self.values.mode != "r":
            return
        self._served = 0
        mapped = self.values
        while isinstance(mapped, np.ndarray):
            mapped = mapped.base
        if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


def fits_memory(logits) -> bool:
    """Whether every method may read these logits."""
    return not isinstance(logits, np.memmap) or logits.nbytes <= IN_MEMORY


def streams(logits, recalibrator) -> bool:
    """Whether a recalibrator is to read these logits block by block.

    Raises where it would have to and cannot.
    """
    if not isinstance(logits, np.memmap):
        return False
    if recalibrator.streams and logits.ndim == 2 and logits.shape[1] > 1:
        return _COPIES * logits.nbytes > IN_MEMORY
    if fits_memory(logits):
        return False
    raise ValueError(
        f"{type(recalibrator).__name__} reads all logits into memory. Those of "
        f"a memory-mapped file above {IN_MEMORY:,} bytes are read block by "
        "block by GlobalScaling and VectorScaling, as (rows, classes). Pass "
        "`numpy.array(logits)` if the memory is large enough. Received: "
        f"{logits.nbytes:,} bytes of shape {logits.shape}"
    )


def each_block(function, blocks):
    """The results of a function of blocks, which threads share."""
    with concurrent.futures.ThreadPoolExecutor(threads()) as pool:
        yield from pool.map(function, blocks)
