"""Intervals and sets of one coverage, as layers that can be exported."""

import keras
import numpy as np
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods.output import distribution_of
from keras_likelihood.models.class_scores import ROUNDING
from keras_likelihood.models.conformal_distribution import (
    LEVEL,
    beyond_level,
    inner_interval,
    tempered,
)


@serializable
class ConformalInterval(keras.Layer):
    """Calibrated intervals of one coverage; see `ConformalDistribution`.

    Args:
        bound: the bound of the calibration, `(1, ...)`.
        likelihood, trust, units: the settings of the calibration.

    Input: `[prediction, parameter, ...]`. Output: a dict of `prediction`,
    `lower` and `upper`.
    """

    def __init__(self, bound, likelihood, trust, units, **kwargs):
        super().__init__(**kwargs)
        self.settings = {
            "bound": bound,
            "likelihood": likelihood,
            "trust": trust,
            "units": units,
        }

    def call(self, inputs):
        kind = likelihoods.get(self.settings["likelihood"])
        law = tempered(
            distribution_of(kind, inputs),
            self.settings["trust"],
            self.settings["units"],
        )
        bound = np.asarray(self.settings["bound"])
        lower, upper = inner_interval(law, bound)
        further = beyond_level(bound)
        if further.any():
            first, last = law.interval(LEVEL)
            spread = ops.where(last > first, last - first, 1.0)
            spread = spread * ops.cast(further, spread.dtype)
            lower, upper = lower - spread, upper + spread
        return {"prediction": law.prediction, "lower": lower, "upper": upper}

    def get_config(self):
        return {**super().get_config(), **self.settings}


@serializable
class ConformalSet(keras.Layer):
    """Calibrated sets of one coverage; see `class_scores`.

    Args:
        bound: the bound of the calibration, `(1, ...)`, or `(classes,)`.
        score, penalty, free_classes, allow_empty, by_class: the settings of
            the calibration.

    Input: probabilities `(batch, ..., classes)`, or those of yes. Output: a
    dict of `probabilities` and `set`.
    """

    def __init__(
        self,
        bound,
        score,
        penalty,
        free_classes,
        allow_empty,
        by_class,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.settings = {
            "bound": bound,
            "score": score,
            "penalty": penalty,
            "free_classes": free_classes,
            "allow_empty": allow_empty,
            "by_class": by_class,
        }

    def call(self, inputs):
        p, settings = inputs, self.settings
        if len(p.shape) == 1:
            p = ops.expand_dims(p, axis=-1)
        if p.shape[-1] == 1:
            p = ops.concatenate([1 - p, p], axis=-1)
        order = ops.argsort(-p, axis=-1)
        falling = ops.take_along_axis(p, order, axis=-1)
        if settings["score"] == "lac":
            tiny = float(np.finfo("float32").tiny)
            found = -ops.log(ops.maximum(falling, tiny)) - ROUNDING
        else:
            rising = ops.cumsum(ops.flip(falling, axis=-1), axis=-1)
            found = -(1 + ROUNDING) * ops.flip(rising, axis=-1)
        sets = ops.cast(found <= self._limits(order), p.dtype)
        rank = ops.argsort(order, axis=-1)
        sets = ops.take_along_axis(sets, rank, axis=-1) > 0.5
        if not settings["allow_empty"]:
            sets = ops.logical_or(sets, rank == 0)
        return {"probabilities": inputs, "set": sets}

    def _limits(self, order):
        """Bounds less penalties, of the classes in falling order."""
        classes, settings = order.shape[-1], self.settings
        bound = np.asarray(settings["bound"])[..., None]
        if settings["score"] == "raps":
            # In float64, as penalties are far larger than some differences.
            beyond = np.arange(1, classes + 1) - settings["free_classes"]
            bound = bound - settings["penalty"] * np.maximum(beyond, 0)
        if not settings["by_class"]:
            return ops.convert_to_tensor(bound.astype("float32"))
        table = np.broadcast_to(bound, (classes, classes)).ravel()
        table = ops.convert_to_tensor(table.astype("float32"))
        place = order * classes + ops.arange(classes, dtype=order.dtype)
        return ops.take(table, place)

    def get_config(self):
        return {**super().get_config(), **self.settings}
