"""
A variational auto-encoder that ignores scratches
=================================================

One image in five is scratched. Under a normal likelihood the decoder learns the
scratches too. A robust likelihood with one shape and one scale for each pixel
does not, and its maps show where the scratches are.
"""

import keras
import numpy as np
from keras import ops
from sklearn.datasets import load_digits

import keras_likelihood as kl

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
clean = (load_digits().images / 16).astype("float32").reshape(-1, 64)
x = clean.reshape(-1, 8, 8).copy()
scratched = rng.random(len(x)) < 0.2
x[scratched, :, 6] = 3.0  # a scratch always crosses the seventh column
x = x.reshape(-1, 64)


@keras.saving.register_keras_serializable("examples")
class Latent(keras.layers.Layer):
    """Draws a code, and adds its divergence from the standard normal."""

    def __init__(self, **options):
        super().__init__(**options)
        self.seed = keras.random.SeedGenerator(0)

    def call(self, inputs):
        mean, log_scale = ops.split(inputs, 2, axis=-1)
        nats = ops.exp(2 * log_scale) + mean**2 - 1 - 2 * log_scale
        # The likelihood is a mean over the 64 pixels, so this is one too.
        self.add_loss(ops.mean(ops.sum(nats, axis=-1)) / 2 / 64)
        noise = keras.random.normal(ops.shape(mean), seed=self.seed)
        return mean + ops.exp(log_scale) * noise


def train(loss):
    inputs = keras.Input((64,))
    h = keras.layers.Dense(128, activation="relu")(inputs)
    h = Latent()(keras.layers.Dense(16)(h))
    h = keras.layers.Dense(128, activation="relu")(h)
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(64)(h))
    model.compile(keras.optimizers.Adam(2e-3), loss=loss)
    model.fit(x, x, epochs=40, batch_size=100, verbose=0)
    return model


# %%
# Only the loss differs. With ``dimension="element"`` it learns one shape and
# one scale for each pixel.

losses = {
    "normal": kl.losses.NormalLoss(dimension="element"),
    "robust rho": kl.losses.RobustRhoLoss(dimension="element"),
}

# %%

images = {"given": x, "without scratch": clean}
for name, loss in losses.items():
    images[name] = train(loss).predict(x, verbose=0)
    error = np.abs(images[name] - clean)[scratched].mean()
    print(f"{name:10} mean distance to the clean image {error:.3f}")
rows = np.flatnonzero(scratched)[:4]
images = {k: -v[rows].reshape(-1, 8, 8).clip(0, 1.5) for k, v in images.items()}
values = losses["robust rho"].parameter_values()
maps = {name: np.reshape(values[name], (8, 8)) for name in ("shape", "scale")}
kl.plots.plot_parameter_maps(maps, images)

# %%
# The robust model gives back the digits without most of their scratches. In its
# map of shapes, the seventh column has low values: heavy tails, so that errors
# there count little.
