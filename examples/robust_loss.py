"""
A robust loss for targets that are partly wrong
===============================================

The noise of this curve increases to the right, and one target in ten is grossly
wrong. The same small network is trained three times. Only its last layer and
its loss differ.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np

import keras_likelihood as kl

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)


def curve(x):
    return np.sin(2 * x) + 0.5 * x


x = rng.uniform(-2, 2, size=(600, 1)).astype("float32")
y = curve(x) + (0.05 + 0.05 * (x + 2)) * rng.normal(size=x.shape)
wrong = rng.random(x.shape) < 0.1
y = np.where(wrong, y + rng.uniform(2, 5, size=x.shape), y).astype("float32")

# %%
# The head predicts the value and the parameters of the distribution, and the
# loss is the NLL of the target. ``keras.layers.Dense`` with a normal loss and
# one learned scale is squared error with an estimate of the noise.

variants = {
    "squared error": (keras.layers.Dense(1), kl.losses.NormalLoss()),
    "+ predicted scale": (kl.layers.ScaleHead(1), kl.losses.NormalLoss()),
    "+ learned shape": (
        kl.layers.RobustRhoHead(1, conditioning={"shape": "global"}),
        kl.losses.RobustRhoLoss(),
    ),
}


def train(head, loss):
    inputs = keras.Input((1,))
    h = inputs
    for _ in range(2):
        h = keras.layers.Dense(64, activation="tanh")(h)
    model = kl.LikelihoodModel(inputs, head(h))
    model.compile(keras.optimizers.Adam(0.01), loss=loss)
    copies = np.tile(x, (25, 1)), np.tile(y, (25, 1))
    model.fit(*copies, batch_size=150, epochs=6, verbose=0)
    return model


models = {name: train(*variant) for name, variant in variants.items()}

# %%
# ``predict_distribution`` returns the whole distribution for each prediction.

figure, axes = plt.subplots(
    1, 3, figsize=(10, 3.4), sharey=True, layout="constrained"
)
grid = np.linspace(-2, 2, 200, dtype="float32")[:, None]
colours = ("#c05621", "#2b6cb0", "#2f855a")
for ax, (name, model), colour in zip(
    axes, models.items(), colours, strict=True
):
    fitted = model.predict_distribution(grid, verbose=0)
    low, high = (
        keras.ops.convert_to_numpy(end)[:, 0] for end in fitted.interval(0.8)
    )
    middle = keras.ops.convert_to_numpy(fitted.prediction)[:, 0]
    distance = np.abs(middle - curve(grid[:, 0])).mean()
    ax.plot(x, y, ".", color="0.78", markersize=3)
    ax.fill_between(grid[:, 0], low, high, color=colour, alpha=0.25, lw=0)
    ax.plot(grid, middle, color=colour, label="prediction, 80 % interval")
    ax.plot(grid, curve(grid), "k--", lw=1, label="truth")
    ax.set(title=name, xlabel="x")
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    print(f"{name:20} mean distance to the truth {distance:.3f}")
axes[0].set_ylabel("y")

# %%
# With squared error, the wrong targets shift the prediction upwards, and all
# intervals have the same width. A predicted scale on its own does not help:
# wrong targets are everywhere, and a normal distribution can explain them only
# with a large scale everywhere. With a learned shape, the heavy tails explain
# the outliers. The prediction then follows the true curve, and the interval
# widens where the noise increases.
