"""Two augmented views of each training example, made on the device."""

from typing import Any

import keras
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Shape, Tensor


@serializable
class TwoViews(keras.Layer):
    """Replaces each training example by two augmented views of it.

    In training the batch doubles: its rows 2 i and 2 i + 1 are the weakly and
    the strongly augmented view of example i. Otherwise examples pass through.
    `NoisyLabelsLoss` takes the first view as the prediction, and the second
    one learns to agree with it.

    ```python
    weak = keras.layers.RandomTranslation(0.1, 0.1)
    strong = keras.Sequential([
        keras.layers.RandomTranslation(0.1, 0.1),
        keras.layers.RandomContrast(0.5),
        keras.layers.RandomErasing(),
    ])
    h = kl.layers.TwoViews(weak, strong)(inputs)
    ```

    Args:
        weak: a layer that augments a batch and keeps its shape, such as
            `keras.layers.RandomFlip` or a `keras.Sequential`.
        strong: the layer of the second view.
    """

    def __init__(self, weak: Any, strong: Any, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})
        self.weak, self.strong = weak, strong
        # Keras marks layers that move pixels as impossible to compile. On JAX
        # they can be, and with one mark the whole model would run eagerly.
        if keras.backend.backend() == "jax":
            for view in (weak, strong):
                for layer in getattr(view, "layers", [view]):
                    layer.supports_jit = True

    def build(self, input_shape: Shape) -> None:
        for layer in (self.weak, self.strong):
            if not layer.built:
                layer.build(input_shape)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        x = ops.cast(inputs, self.compute_dtype)
        if not training:
            return x
        views = [view(x, training=True) for view in (self.weak, self.strong)]
        return ops.reshape(ops.stack(views, axis=1), (-1, *x.shape[1:]))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (None, *input_shape[1:])

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        views = {"weak": serialize(self.weak), "strong": serialize(self.strong)}
        return {**super().get_config(), **views}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "TwoViews":
        read = keras.saving.deserialize_keras_object
        views = {name: read(config[name]) for name in ("weak", "strong")}
        return cls(**{**config, **views})
