"""The first layer of a network for tables."""

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.tabular.columns import Column

MOST_BINS = 32
_ALL_BINS = 1024
"""Bins of all columns together. Tables with many columns get fewer each."""
_SAMPLE = 200_000


@serializable
class TableFeatures(keras.Layer):
    """Turns the rows of a table into the features of a network.

    A number `x` becomes several features, which together are a smooth, bounded
    and flexible function of it:

    - `z / sqrt(1 + (z / 3)^2)` with `z = (x - median) / spread`. It is robust
      and cuts outliers smoothly (RealMLP, Holzmüller et al. 2024).
    - `clip((x - low_t) / (high_t - low_t), 0, 1)` for bins between quantiles
      of the column. This piecewise-linear encoding lets a network fit rough
      functions (Gorishniy, Rubachev and Babenko 2022).
    - whether it is missing, if values were missing in the training rows. The
      other features then are those of the median.

    A category becomes an indicator for each level, with one more for levels
    that were not seen in training.

    The layer holds how columns are read, so that the file of a model is
    complete: `kl.tabular.load` makes an estimator for raw rows from it.

    Args:
        columns: list of dicts with the fields of `columns.Column`.
        gaps: for each column, whether values were missing in training.
        bins: for each column, its number of bins.
        about: dict of what the estimator needs, in JSON types.

    Input: `(batch, columns)`, as `estimator.encode` makes it.
    Output: `(batch, features)`.
    """

    def __init__(self, columns, gaps, bins, about=None, **kwargs):
        super().__init__(**kwargs)
        self.columns = [Column(**column) for column in columns]
        self.gaps = [bool(gap) for gap in gaps]
        self.bins = [int(count) for count in bins]
        self.about = dict(about or {})
        self._numbers = [
            at
            for at, column in enumerate(self.columns)
            if column.kind in ("number", "date")
        ]
        count = len(self._numbers)
        total = sum(self.bins[at] for at in self._numbers)
        self.least = self._constant("least", count)
        self.most = self._constant("most", count)
        self.centre = self._constant("centre", count)
        self.spread = self._constant("spread", count)
        self.low = self._constant("low", total)
        self.width = self._constant("width", total)
        self.built = True

    def _constant(self, name, size):
        return self.add_weight(
            name=name, shape=(size,), initializer="ones", trainable=False
        )

    @classmethod
    def learn(cls, columns, matrix, random) -> "TableFeatures":
        """A layer for the rows of a matrix.

        Args:
            columns: list of `Column`.
            matrix: encoded training rows, `(n, columns)`.
            random: a NumPy generator, for the sample of a large table.
        """
        if len(matrix) > _SAMPLE:
            matrix = matrix[random.choice(len(matrix), _SAMPLE, replace=False)]
        numbers = [c.kind in ("number", "date") for c in columns]
        # Few rows cannot tell many bins apart.
        most = min(MOST_BINS, int(len(matrix) ** 0.5 / 2))
        most = min(most, _ALL_BINS // max(sum(numbers), 1))
        units, edges = [], []
        for is_number, values in zip(numbers, matrix.T, strict=True):
            known = values[np.isfinite(values)]
            edges.append(_edges(known, most) if is_number else [])
            if is_number:
                units.append(_units(known))
        layer = cls(
            [vars(column) for column in columns],
            np.isnan(matrix).any(axis=0),
            [max(len(e) - 1, 0) for e in edges],
            name="table_features",
        )
        ends = [e for e in edges if len(e)]
        low = np.concatenate([e[:-1] for e in ends] or [np.zeros(0)])
        high = np.concatenate([e[1:] for e in ends] or [np.zeros(0)])
        layer.low.assign(low)
        layer.width.assign(high - low)
        names = ("least", "most", "centre", "spread")
        for name, values in zip(
            names, np.reshape(units, (-1, 4)).T, strict=True
        ):
            getattr(layer, name).assign(values.astype("float32"))
        return layer

    def outside(self, x) -> np.ndarray:
        """Where rows `(n, columns)` are unlike all training rows, as bool.

        Numbers are outside of their range, and categories were not seen.
        """
        least, most = np.zeros((2, len(self.columns)), "float32")
        most[:] = np.inf
        least[self._numbers] = ops.convert_to_numpy(self.least)
        most[self._numbers] = ops.convert_to_numpy(self.most)
        is_category = [column.kind == "category" for column in self.columns]
        # The code of an unseen category is 0.
        least[is_category] = 1.0
        return (x < least) | (x > most)

    def call(self, inputs):
        missing = ops.isnan(inputs)
        centre = ops.convert_to_tensor(self.centre)
        features = []
        if self._numbers:
            x = ops.take(inputs, self._numbers, axis=1)
            x = ops.where(ops.isnan(x), centre, x)
            z = ops.clip((x - centre) / self.spread, -1e6, 1e6)
            features.append(z / ops.sqrt(1 + ops.square(z / 3)))
            counts = [self.bins[at] for at in self._numbers]
            source = np.repeat(np.arange(len(counts)), counts)
            if len(source):
                value = ops.take(x, source.tolist(), axis=1)
                code = (value - self.low) / self.width
                features.append(ops.clip(code, 0.0, 1.0))
        gaps = [at for at, gap in enumerate(self.gaps) if gap]
        if gaps:
            gap = ops.take(missing, gaps, axis=1)
            features.append(ops.cast(gap, self.compute_dtype))
        for at, column in enumerate(self.columns):
            if column.kind == "category":
                codes = ops.where(missing[:, at], -1.0, inputs[:, at])
                levels = np.arange(len(column.levels) + 1, dtype="float32")
                found = ops.equal(codes[:, None], levels)
                features.append(ops.cast(found, self.compute_dtype))
        return ops.concatenate(features, axis=1)

    def get_config(self):
        return {
            **super().get_config(),
            "columns": [vars(column) for column in self.columns],
            "gaps": self.gaps,
            "bins": self.bins,
            "about": self.about,
        }


def _edges(values, most):
    """Ends of the bins of a column; none if it has only two values."""
    found = np.unique(values.astype("float32"))
    if len(found) > most + 1:
        levels = np.linspace(0, 1, most + 1)
        found = np.unique(np.quantile(values, levels).astype("float32"))
    return found if len(found) > 2 else []


def _units(values):
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    # A quarter of the values may be equal. Then all of them count.
    spread = (high - low) / 1.349 or values.std() or 1.0
    return values.min(), values.max(), middle, max(spread, 1e-30)
