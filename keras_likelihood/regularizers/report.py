"""What adaptive regularizers have learned: a table, and weights set to zero."""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_likelihood.regularizers.adaptive_regularizer import (
    AdaptiveRegularizer,
)


def adaptive_weights(model: keras.Layer) -> list[Any]:
    """The weights of `model` that have an adaptive regularizer.

    ```python
    for weight in kl.regularizers.adaptive_weights(model):
        print(weight.path, weight.regularizer.strength())
    ```
    """
    return [
        weight
        for weight in model.trainable_weights
        if isinstance(weight.regularizer, AdaptiveRegularizer)
    ]


def prune(model: keras.Layer) -> dict[str, int]:
    """Sets the weights that adaptive regularizers have switched off to zero.

    Returns `{path of the weight: number of zeros it now has}`.
    """
    zeros = {}
    for weight in adaptive_weights(model):
        value = ops.convert_to_numpy(weight)
        off = weight.regularizer.switched_off(value)
        value = np.where(off, np.zeros_like(value), value)
        weight.assign(value)
        zeros[weight.path] = int(np.sum(value == 0))
    return zeros


class WeightReport(NamedTuple):
    """One row of a report.

    Attributes:
        path, prior, weights: path, name of the regularizer, number of entries.
        effective: share of them that the data determine, or NaN.
        off: share of them that are switched off, in [0, 1].
        scale: median of the prior's scales.
        strength: median factor of Keras' `L1` or `L2` that equals it.
        rows: which rows chose the strength, `""` before `fit`.
    """

    path: str
    prior: str
    weights: int
    effective: float
    off: float
    scale: float
    strength: float
    rows: str


_FORMATS = ("", "", "", ".0%", ".0%", ".3g", ".3g", "")
_SIDES = "<<>>>>><"


class Report(list[WeightReport]):
    """A list of `WeightReport`s that prints as a table."""

    def __str__(self) -> str:
        rows: list[Any] = [("weight", *WeightReport._fields[1:])]
        for row in self:
            texts = map(format, row, _FORMATS)
            rows.append([text.replace("nan%", "-") for text in texts])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        sides = [f"{s}{w}" for s, w in zip(_SIDES, widths, strict=True)]
        return "\n".join(
            "  ".join(map(format, row, sides)).rstrip() for row in rows
        )

    __repr__ = __str__


def report(model: keras.Layer) -> Report:
    """A list of `WeightReport`s, one per weight, which prints as a table.

    ```python
    print(kl.regularizers.report(model))
    ```
    """
    rows = Report()
    for weight in adaptive_weights(model):
        regularizer = weight.regularizer
        off = regularizer.switched_off(weight)
        rows.append(
            WeightReport(
                path=weight.path,
                prior=type(regularizer).__name__,
                weights=off.size,
                effective=regularizer.effective_weights() / off.size,
                off=float(np.mean(off)),
                scale=float(np.median(regularizer.scale())),
                strength=float(np.median(regularizer.strength())),
                rows=regularizer.source,
            )
        )
    return rows
