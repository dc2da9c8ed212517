"""Calibration scores in the file of a model."""

from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.calibration_scores import CalibrationScores


@serializable
class ConformalScores(keras.Layer):
    """Returns its input and keeps the scores of a conformal calibration.

    The scores are weights, so that they are saved and loaded with the model.

    Args:
        shape: the shape of the scores, `(n, ...)`.
        settings: dict of the other values that sets or intervals need.
        labels: the labels of the groups, or `None`.
        sizes: number of scores of every group.
    """

    def __init__(self, shape, settings: dict, labels, sizes, **kwargs):
        super().__init__(**kwargs)
        self.settings = dict(settings)
        self._saved = {
            "shape": list(shape),
            "labels": None if labels is None else list(labels),
            "sizes": list(sizes),
        }
        # A score is stored as two float32 numbers, 48 bits on every backend.
        self.parts = self.add_weight(
            name="scores",
            shape=(2, *shape),
            initializer="zeros",
            trainable=False,
            dtype="float32",
        )

    @classmethod
    def holding(
        cls, scores: CalibrationScores, settings: dict, **kwargs
    ) -> "ConformalScores":
        """A layer that keeps these scores."""
        layer = cls(
            scores.values.shape, settings, scores.labels, scores.sizes, **kwargs
        )
        layer.parts.assign(split(scores.values))
        return layer

    @property
    def scores(self) -> CalibrationScores:
        """The scores that this layer keeps."""
        parts = keras.ops.convert_to_numpy(self.parts).astype("float64")
        saved: dict[str, Any] = self._saved
        return CalibrationScores(
            parts.sum(axis=0), saved["labels"], saved["sizes"]
        )

    def call(self, inputs):
        return inputs

    def get_config(self):
        return {
            **super().get_config(),
            **self._saved,
            "settings": self.settings,
        }


def split(values) -> np.ndarray:
    """`(2, ...)` float32 numbers whose sum is at least the values.

    Rounding is upwards, so that a bound never gets smaller.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        high = np.asarray(values, "float64").astype("float32")
        rest = values - high.astype("float64")
        low = np.where(np.isfinite(high), rest, 0.0).astype("float32")
        short = high.astype("float64") + low < values
        low = np.where(short, np.nextafter(low, np.float32(np.inf)), low)
    return np.stack([high, low])


def scores_layer(model) -> ConformalScores:
    """The layer of a model that keeps its calibration scores."""
    found = [v for v in model.layers if isinstance(v, ConformalScores)]
    if len(found) != 1:
        raise ValueError(
            "A conformal model has one layer of calibration scores. "
            f"Received: {len(found)}"
        )
    return found[0]
