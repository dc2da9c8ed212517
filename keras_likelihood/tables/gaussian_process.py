"""A layer that predicts as a Gaussian process does."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Tensor
from keras_likelihood.tables.table_features import take_columns


def matern(a: Any, b: Any, module: Any) -> tuple[Any, Any]:
    """The kernel of scaled rows, and its slope by the squared distance.

    `module` is `numpy` or `keras.ops`.
    """
    square = (
        module.sum(a * a, axis=1, keepdims=True)
        + module.sum(b * b, axis=1)
        - 2 * module.matmul(a, module.transpose(b))
    )
    r = module.sqrt(5 * module.maximum(square, 1e-12))
    decay = module.exp(-r)
    return (1 + r + r * r / 3) * decay, -5 / 6 * (1 + r) * decay


@serializable
class GaussianProcess(keras.Layer):
    """Predicts `(mean, df, scale)` of Student's t from stored rows.

        k(a, b) = (1 + r + r^2 / 3) exp(-r),    r^2 = 5 |(a - b) / lengths|^2

    This is the Matern kernel with a length per column, with
    normal noise (Rasmussen and Williams 2006). The scale and `df` correct the
    predictive distribution for tails that are not normal.

    Args:
        rows: number of stored rows.
        columns: numbers of the features that the kernel compares.
    """

    def __init__(self, rows: int, columns: Sequence[int], **kwargs: Any):
        super().__init__(**kwargs)
        self.rows, self.columns = rows, list(columns)
        shapes = {
            "inverse_lengths": (len(self.columns),),
            "stored": (rows, len(self.columns)),
            "slopes": (rows, 1),
            "whitening": (rows, rows),
            "units": (6,),
        }
        for name, shape in shapes.items():
            # On JAX, the initializers of Keras would compile for each shape.
            start = np.zeros(shape, "float32")
            weight = self.add_weight(
                name=name,
                shape=shape,
                initializer=lambda *_, start=start, **__: ops.convert_to_tensor(
                    start
                ),
                trainable=False,
            )
            setattr(self, name, weight)
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        units = ops.convert_to_tensor(self.units)
        centre, spread, signal, noise, scale, df = (units[i] for i in range(6))
        x = take_columns(inputs, self.columns) * self.inverse_lengths
        k = signal * matern(x, ops.convert_to_tensor(self.stored), ops)[0]
        mean = centre + spread * ops.matmul(k, self.slopes)
        explained = ops.square(ops.matmul(k, self.whitening))
        explained = ops.sum(explained, axis=1, keepdims=True)
        variance = ops.maximum(signal - explained, 0.0) + noise
        scale = scale * spread * ops.sqrt(variance)
        return ops.concatenate([mean, 0 * mean + df, scale], axis=1)

    def get_config(self) -> dict[str, Any]:
        own = {"rows": self.rows, "columns": self.columns}
        return {**super().get_config(), **own}
