"""
Sets of answers with a guarantee
================================

A classifier that is unsure should give more than one answer. A conformal set
contains the right class with the promised probability, whatever the classifier.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import keras_likelihood as kl

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
digits, y = load_digits(return_X_y=True)
x = (digits / 16 + 0.35 * rng.normal(size=digits.shape)).astype("float32")
train, held, test = np.split(rng.permutation(len(x)), [600, 1100])

network = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
network.compile("adam", "sparse_categorical_crossentropy")
network.fit(x[train], y[train], epochs=30, verbose=0)

# %%
# 500 images that the network has not seen calibrate the sets. The result is a
# Keras model that can be saved.

sets = kl.conformal.ConformalSets().fit(network, x[held], y[held])
for coverage in (0.8, 0.9, 0.99):
    answers = sets.model.predict_set(x[test], coverage)
    inside = answers[np.arange(len(test)), y[test]].mean()
    print(
        f"promised {coverage:.0%}, covered {inside:.1%}, "
        f"{answers.sum(axis=1).mean():.1f} answers on average"
    )

# %%

answers = sets.model.predict_set(x[test], 0.99)
many = answers.sum(axis=1).argsort()[::-1][:12]
figure, axes = plt.subplots(2, 6, figsize=(9, 3.6), layout="constrained")
for ax, i in zip(axes.flat, many, strict=True):
    ax.imshow(x[test][i].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{y[test][i]}: {np.flatnonzero(answers[i])}", fontsize=8)
    ax.axis("off")

# %%
# Each image is shown with its true class and the set of answers. The sets are
# large where a person would hesitate too. The promise holds on average over
# images like those of the calibration, not for each single image.
