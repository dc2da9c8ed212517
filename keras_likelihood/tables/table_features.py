"""Feature layer of networks for tables."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.tables.columns import Column, middle_and_spread

MOST_BINS = 32
_ALL_BINS = 1024
"""Maximum number of bins of all columns together."""
_SAMPLE = 200_000
_UNITS = ("least", "most", "centre", "spread")


@serializable
class TableFeatures(keras.Layer):
    """Maps the rows of a table to features of a network.

    A number `x` is mapped to several features:

    - `z / sqrt(1 + (z / 3)^2)` with `z = (x - median) / spread`, which clips
      outliers smoothly (RealMLP, Holzmüller et al. 2024);
    - `clip((x - low) / (high - low), 0, 1)` for each bin between quantiles, a
      piecewise-linear encoding (Gorishniy, Rubachev and Babenko 2022);
    - an indicator of missing values, if values were missing in training. The
      other features are then computed from the median.

    A category is mapped to one indicator per level and one for unseen levels.
    `gaps` are the columns with missing values, and `bins` their numbers of
    bins. `about` has the settings of the estimator, which `kl.tabular.load`
    restores from the file of a model.
    """

    def __init__(
        self,
        columns: list[dict[str, Any]],
        gaps: Sequence[bool],
        bins: Sequence[int],
        about: dict[str, Any] | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.columns = [Column(**column) for column in columns]
        self.gaps = [bool(gap) for gap in gaps]
        self.bins = [int(count) for count in bins]
        self.about = dict(about or {})
        self._numbers = [i for i, c in enumerate(self.columns) if c.is_number]
        self._sources = np.repeat(np.arange(len(self.bins)), self.bins).tolist()
        sizes = dict.fromkeys(_UNITS, len(self._numbers))
        sizes |= dict.fromkeys(("low", "width"), len(self._sources))
        for name, size in sizes.items():
            weight = self.add_weight(
                name=name, shape=(size,), initializer="ones", trainable=False
            )
            setattr(self, name, weight)
        self.built = True

    @classmethod
    def learn(
        cls, columns: list[Column], matrix: Array, random: np.random.Generator
    ) -> "TableFeatures":
        """Creates a layer from encoded training rows `(n, columns)`."""
        if len(matrix) > _SAMPLE:
            matrix = matrix[random.choice(len(matrix), _SAMPLE, replace=False)]
        count = sum(column.is_number for column in columns)
        most = min(MOST_BINS, int(len(matrix) ** 0.5 / 2))
        most = min(most, _ALL_BINS // max(count, 1))
        units, edges = [], []
        for column, values in zip(columns, matrix.T, strict=True):
            known = values[np.isfinite(values)].astype("float64")
            edges.append(np.zeros(1))
            if column.is_number:
                edges[-1] = _edges(known, most)
                units.append(_units(known))
        layer = cls(
            [vars(column) for column in columns],
            [bool(np.isnan(values).any()) for values in matrix.T],
            [len(e) - 1 for e in edges],
            name="table_features",
        )
        layer.low.assign(np.concatenate([e[:-1] for e in edges]))
        layer.width.assign(np.concatenate([np.diff(e) for e in edges]))
        by_unit = np.reshape(units, (-1, 4)).T.astype("float32")
        for name, values in zip(_UNITS, by_unit, strict=True):
            getattr(layer, name).assign(values)
        return layer

    def outside(self, x: Array) -> Array:
        """Mask of numbers out of the training range and unseen categories."""
        least = np.full(len(self.columns), 0.0)
        most = np.full(len(self.columns), np.inf)
        least[self._numbers] = ops.convert_to_numpy(self.least)
        most[self._numbers] = ops.convert_to_numpy(self.most)
        # The code of an unseen category is 0.
        least[[column.kind == "category" for column in self.columns]] = 1.0
        is_outside: Array = (x < least) | (x > most)
        return is_outside

    def without_bins(self, count: int) -> list[int]:
        """Numbers of those of `count` features that are no bins."""
        first = len(self._numbers)
        return [*range(first), *range(first + len(self._sources), count)]

    def call(self, inputs: Tensor) -> Tensor:
        missing = ops.isnan(inputs)
        features = []
        if self._numbers:
            centre = ops.convert_to_tensor(self.centre)
            x = take_columns(inputs, self._numbers)
            x = ops.where(ops.isnan(x), centre, x)
            z = ops.clip((x - centre) / self.spread, -1e6, 1e6)
            features.append(z / ops.sqrt(1 + ops.square(z / 3)))
        if self._sources:
            places = [self._numbers.index(at) for at in self._sources]
            code = (take_columns(x, places) - self.low) / self.width
            features.append(ops.clip(code, 0.0, 1.0))
        if any(self.gaps):
            places = np.flatnonzero(self.gaps).tolist()
            gap = ops.cast(missing, self.compute_dtype)
            features.append(take_columns(gap, places))
        for at, column in enumerate(self.columns):
            if column.kind == "category":
                code = ops.where(missing[:, at], -1.0, inputs[:, at])
                levels = np.arange(len(column.levels) + 1, dtype="float32")
                is_level = ops.equal(code[:, None], levels)
                features.append(ops.cast(is_level, self.compute_dtype))
        return ops.concatenate(features, axis=1)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "columns": [vars(column) for column in self.columns],
            "gaps": self.gaps,
            "bins": self.bins,
            "about": self.about,
        }


def take_columns(x: Tensor, places: list[int]) -> Tensor:
    """The columns at `places`."""
    # PyTorch can export `take` of rows to ONNX, but not of columns.
    return ops.transpose(ops.take(ops.transpose(x), places, axis=0))


def takes_missing(model: Any) -> bool:
    """Whether a model treats NaN in its input as a missing value."""
    layers = getattr(model, "layers", ())
    return any(isinstance(layer, TableFeatures) for layer in layers)


def features_of(model: Any) -> TableFeatures:
    """The `TableFeatures` layer of an estimator's model."""
    found = [v for v in model.layers if isinstance(v, TableFeatures)]
    if len(found) != 1:
        raise ValueError(
            "The model must be that of an estimator of `kl.tabular`. Received: "
            f"a {type(model).__name__} with {len(found)} `TableFeatures` layers"
        )
    return found[0]


def _edges(values: Array, most: int) -> Array:
    """Edges of the bins of a column. Up to two values need no bins."""
    found = np.unique(values.astype("float32"))
    if len(found) > most + 1:
        found = np.quantile(values, np.linspace(0, 1, most + 1))
        found = np.unique(found.astype("float32"))
    return found if len(found) > 2 else found[:1]


def _units(values: Array) -> tuple[float, float, float, float]:
    middle, spread = middle_and_spread(values)
    return values.min(), values.max(), middle, max(spread or 1.0, 1e-30)
