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
        bound: the bound of the calibration, `(1, ..., classes or 1)`.
        score, penalty, free_classes, allow_empty: the settings of the
            calibration.

    Input: probabilities `(batch, ..., classes)`, or those of yes. Output: a
    dict of `probabilities` and `set`.
    """

    def __init__(
        self, bound, score, penalty, free_classes, allow_empty, **kwargs
    ):
        super().__init__(**kwargs)
        self.settings = {
            "bound": bound,
            "score": score,
            "penalty": penalty,
            "free_classes": free_classes,
            "allow_empty": allow_empty,
        }

    def call(self, inputs):
        p, settings = inputs, self.settings
        if len(p.shape) == 1:
            p = ops.expand_dims(p, axis=-1)
        if p.shape[-1] == 1:
            p = ops.concatenate([1 - p, p], axis=-1)
        order = ops.argsort(-p, axis=-1)
        rank = ops.argsort(order, axis=-1)
        if settings["score"] == "lac":
            tiny = float(np.finfo("float32").tiny)
            found = -ops.log(ops.maximum(p, tiny)) - ROUNDING
        else:
            rising = ops.flip(ops.take_along_axis(p, order, axis=-1), axis=-1)
            rest = ops.flip(ops.cumsum(rising, axis=-1), axis=-1)
            rest = ops.take_along_axis(rest, rank, axis=-1)
            found = -(1 + ROUNDING) * rest
        if settings["score"] == "raps":
            beyond = ops.cast(rank, p.dtype) + 1 - settings["free_classes"]
            # Beside a penalty, float32 cannot hold a small probability.
            found = found + settings["penalty"] * ops.relu(beyond) - 1e-6
        sets = found <= ops.cast(np.asarray(settings["bound"]), p.dtype)
        if not settings["allow_empty"]:
            sets = ops.logical_or(sets, rank == 0)
        return {"probabilities": inputs, "set": sets}

    def get_config(self):
        return {**super().get_config(), **self.settings}
