"""Noise whose level differs between rows."""

import keras

from keras_likelihood.backend.registration import serializable


@serializable
class RowNoise(keras.Layer):
    """Adds normal noise to each row while training.

        x' = x + level e,    level ~ uniform(0, largest),    e ~ normal(0, 1)

    With weak noise a denoiser must learn fine structure in the data, and with
    strong noise coarse structure. The level of a row is drawn again in each
    step.

    Args:
        largest: `>= 0`.
        seed: the random seed of the noise. Defaults to `None`.

    Input and output: `(batch, units)`.
    """

    def __init__(self, largest: float, *, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.largest = largest
        self.seed = seed
        self._generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True

    def call(self, inputs, training=False):
        if not training or self.largest == 0:
            return inputs
        shape = keras.ops.shape(inputs)
        level = keras.random.uniform(
            (shape[0], 1),
            maxval=self.largest,
            dtype=self.compute_dtype,
            seed=self._generator,
        )
        noise = keras.random.normal(
            shape, dtype=self.compute_dtype, seed=self._generator
        )
        return inputs + level * noise

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "largest": self.largest,
            "seed": self.seed,
        }
