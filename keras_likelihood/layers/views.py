"""Augmented views of training images, made on the device."""

from typing import Any

import keras
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.likelihoods.checks import check_argument


@serializable
class ImageView(keras.Layer):
    """A random view of each training image `(batch, rows, columns, channels)`.

    All changes of the geometry are one lookup of pixels, so the layer costs
    little on a GPU. Without `training` images pass through unchanged.

    ```python
    weak = kl.layers.ImageView()
    strong = kl.layers.ImageView(warp=0.15, color=0.5, erase=16)
    ```

    Args:
        shift: largest shift in pixels, a whole number `>= 0`. Pixels beyond
            the border are reflected. Defaults to 4.
        flip: whether to mirror half of the images. Defaults to True.
        warp: largest change of an entry of the 2 x 2 matrix of coordinates,
            which rotates, shears and scales, in [0, 0.5]. Defaults to 0.
        color: largest relative change of brightness and contrast, in [0, 1).
            The saturation changes 1.6 times as much. Defaults to 0.
        erase: side of a square of pixels that is replaced by grey, a whole
            number `>= 0`. Defaults to 0.
        largest: largest value of a pixel. Defaults to 255.
        seed: random seed. Defaults to `None`.
    """

    def __init__(
        self,
        *,
        shift: int = 4,
        flip: bool = True,
        warp: float = 0.0,
        color: float = 0.0,
        erase: int = 0,
        largest: float = 255.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})
        whole = "a whole number >= 0"
        check_argument("shift", shift, shift >= 0 and shift % 1 == 0, whole)
        check_argument("warp", warp, 0 <= warp <= 0.5, "in [0, 0.5]")
        check_argument("color", color, 0 <= color < 1, "in [0, 1)")
        check_argument("erase", erase, erase >= 0 and erase % 1 == 0, whole)
        check_argument("largest", largest, largest > 0, "> 0")
        self.shift, self.flip, self.warp = shift, flip, warp
        self.color, self.erase, self.largest = color, erase, largest
        self.seed = seed
        self._generator = keras.random.SeedGenerator(seed)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        x = ops.cast(inputs, self.compute_dtype)
        if not training:
            return x
        x = self._moved(x)
        if self.color:
            x = self._colored(x)
        if self.erase:
            # Gray squares, which may reach over the border.
            down, along = (
                ops.abs(ops.arange(float(n)) - self._random(x, 0.0, n, 1))
                for n in x.shape[1:3]
            )
            away = ops.maximum(down[:, :, None], along[:, None])[..., None]
            x = ops.where(away < self.erase / 2, 0.5 * self.largest, x)
        return x

    def _random(self, x: Tensor, low: float, high: float, *axes: int) -> Tensor:
        """Random numbers `(batch, *axes)`."""
        size = (ops.shape(x)[0], *axes)
        return keras.random.uniform(size, low, high, seed=self._generator)

    def _moved(self, x: Tensor) -> Tensor:
        rows, columns = x.shape[1:3]
        middle = (rows - 1) / 2, (columns - 1) / 2
        down = (ops.arange(float(rows)) - middle[0])[None, :, None]
        along = (ops.arange(float(columns)) - middle[1])[None, None]
        if self.flip:
            along = along * ops.sign(self._random(x, -1.0, 1.0, 1, 1))
        change = self._random(x, -self.warp, self.warp, 4, 1, 1)
        reach = self.shift + 0.5
        moves = self._random(x, -reach, reach, 2, 1, 1)
        place = (
            (1 + change[:, 0]) * down + change[:, 1] * along + moves[:, 0],
            change[:, 2] * down + (1 + change[:, 3]) * along + moves[:, 1],
        )
        index = [
            _reflected(ops.round(p + m), length)
            for p, m, length in zip(place, middle, (rows, columns), strict=True)
        ]
        flat = index[0] * columns + index[1]
        pixels = ops.reshape(x, (-1, rows * columns, x.shape[3]))
        flat = ops.reshape(flat, (-1, rows * columns, 1))
        moved = ops.take_along_axis(pixels, flat, axis=1)
        return ops.reshape(moved, ops.shape(x))

    def _colored(self, x: Tensor) -> Tensor:
        def factor(change: float) -> Tensor:
            return self._random(x, 1 - change, 1 + change, 1, 1, 1)

        x = x * factor(self.color)
        mean = ops.mean(x, axis=(1, 2, 3), keepdims=True)
        x = (x - mean) * factor(self.color) + mean
        gray = ops.mean(x, axis=3, keepdims=True)
        x = (x - gray) * factor(min(1.6 * self.color, 1.0)) + gray
        return ops.clip(x, 0.0, self.largest)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        names = ("shift", "flip", "warp", "color", "erase", "largest", "seed")
        return {**super().get_config(), **{n: getattr(self, n) for n in names}}


def _reflected(place: Tensor, length: int) -> Tensor:
    """Whole numbers reflected into [0, length)."""
    last = length - 1
    place = last - ops.abs(last - ops.abs(place))
    return ops.cast(ops.clip(place, 0, last), "int32")


@serializable
class TwoViews(keras.Layer):
    """Replaces each training example by two augmented views of it.

    In training the batch doubles: its rows 2 i and 2 i + 1 are the weakly and
    the strongly augmented view of example i. Otherwise examples pass through.
    `NoisyLabelsLoss` takes the first view as the prediction, and the second
    one learns to agree with it.

    ```python
    weak = kl.layers.ImageView()
    strong = kl.layers.ImageView(color=0.5, erase=16)
    h = kl.layers.TwoViews(weak, strong)(inputs)
    ```

    Args:
        weak: a layer that augments a batch and keeps its shape, such as
            `ImageView`, `keras.layers.RandomFlip` or a `keras.Sequential`.
        strong: the layer of the second view.
    """

    def __init__(self, weak: Any, strong: Any, **kwargs: Any) -> None:
        super().__init__(**{"dtype": "float32", **kwargs})
        self.weak, self.strong = weak, strong

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
