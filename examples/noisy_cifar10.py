"""Four labels in ten are wrong
===============================
``NOISY_IMAGES`` names an ``.npz`` with x, y, x_test and y_test, such as those
of CIFAR-10N. Otherwise this trains for seconds on scikit-learn's digits.
"""

import functools
import os

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits

import keras_likelihood as kl

if path := os.environ.get("NOISY_IMAGES"):
    x, y, x_test, y_test = np.load(path).values()
    width, epochs, batch = 64, 300, 256
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
else:
    images, truth = load_digits(return_X_y=True)
    images = (15 * images.reshape(-1, 8, 8, 1)).astype("uint8")
    other = np.random.default_rng(0).integers(0, 10, size=(2, 1400))
    y = np.where(other[0] < 4, other[1], truth[:1400])
    x, x_test, y_test = images[:1400], images[1400:], truth[1400:]
    width, epochs, batch = 8, 12, 50
inputs = keras.Input(x.shape[1:], dtype="uint8")
shift = layers.RandomTranslation(0.125, 0.125, "reflect", "nearest")
moves = [layers.RandomFlip("horizontal"), shift]
changes = [
    layers.RandomRotation(0.04, "reflect", "nearest"),
    layers.RandomBrightness(0.5),
    layers.RandomContrast(0.5),
    layers.RandomErasing(scale=(0.25, 0.25), fill_value=128),
]
weak, strong = keras.Sequential(moves), keras.Sequential([*moves, *changes])
# A pre-activation ResNet-18.
h = kl.layers.TwoViews(weak, strong)(inputs)
conv = functools.partial(layers.Conv2D, padding="same", use_bias=False)
h = conv(width, 3)(layers.Rescaling(1 / 64, -2.0)(h))
stages = (1, 1), (1, 1), (2, 2), (2, 1), (4, 2), (4, 1), (8, 2), (8, 1)
for n, stride in stages:
    a = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(h))
    short = h if h.shape[-1] == n * width else conv(n * width, 1, stride)(a)
    a = layers.BatchNormalization(momentum=0.9)(conv(n * width, 3, stride)(a))
    h = short + conv(n * width, 3)(layers.ReLU()(a))
h = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(h))
h = layers.GlobalAveragePooling2D(dtype="float32")(h)
model = kl.LikelihoodModel(inputs, layers.Dense(10, dtype="float32")(h))

steps, decay = epochs * len(x) // batch, keras.optimizers.schedules.CosineDecay
rate = decay(0.0, steps, warmup_target=0.1, warmup_steps=steps // 100)
optimizer = keras.optimizers.SGD(rate, 0.9, nesterov=True, weight_decay=5e-3)
noise = kl.DataParameter(len(x))
loss = kl.losses.NoisyLabelsLoss(noise, method="sparse")
model.compile(optimizer, loss, metrics=["accuracy"])
model.fit(x, kl.indexed(y), batch_size=batch, epochs=epochs, verbose=0)
print("test accuracy:", model.evaluate(x_test, y_test, verbose=0)[1])
print("labels explained as wrong:", (noise.values() ** 2 > 0.5).any(1).sum())
