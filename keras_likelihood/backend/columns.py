"""The columns of a table: what kind each is, and its values as numbers."""

import collections
import dataclasses

import numpy as np

from keras_likelihood.backend.cells import (
    as_days,
    as_numbers,
    as_texts,
    kind_of,
)

MOST_COLUMNS = 10_000
MOST_LEVELS = 250
"""Categories beyond the most frequent ones count as unseen."""
_LARGEST = 1e37
"""Numbers are cut here, because Keras computes in float32."""


@dataclasses.dataclass
class Column:
    """How one column of a table is read.

    `kind` is "number", "date" (read as days since 1970), "category", or
    "ignored": constant, empty, or a text that differs in nearly every row. The
    code of the first of the `levels` is 1, and 0 is for all others.
    """

    name: str
    kind: str
    levels: list[str] = dataclasses.field(default_factory=list)

    @property
    def is_number(self) -> bool:
        return self.kind in ("number", "date")

    def encode(self, cells: np.ndarray) -> np.ndarray:
        """Cells as float64 `(n,)`: numbers or codes; NaN where missing."""
        if self.kind == "ignored":
            return np.zeros(len(cells))
        if self.kind == "category":
            codes = {level: code for code, level in enumerate(self.levels, 1)}
            texts = as_texts(cells)
            return np.array(
                [np.nan if t is None else codes.get(t, 0.0) for t in texts]
            )
        numbers = as_days(cells) if self.kind == "date" else as_numbers(cells)
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
        return np.clip(numbers, -_LARGEST, _LARGEST)


def learn_column(name: str, cells: np.ndarray) -> Column:
    """Finds out of which kind a column is."""
    kind = kind_of(cells, as_numbers(cells))
    if kind in ("number", "date"):
        column = Column(name, kind)
        numbers = column.encode(cells)
        known = numbers[np.isfinite(numbers)]
        some_missing = 0 < len(known) < len(numbers)
        varies = some_missing or (known.size and known.min() < known.max())
        return column if varies else Column(name, "ignored")
    texts = as_texts(cells)
    counts = collections.Counter(text for text in texts if text is not None)
    known_count = counts.total()
    is_unique = len(counts) > 20 and len(counts) > 0.5 * known_count
    values = len(counts) + (known_count < len(texts))
    if values < 2 or is_unique or not known_count:
        return Column(name, "ignored")
    levels = sorted(counts, key=lambda text: (-counts[text], text))
    return Column(name, "category", levels[:MOST_LEVELS])
