"""
A calibrated classifier from an overconfident one
=================================================

A network is trained for too long on little data. Its classes are usable, its
probabilities are not, until a temperature is fitted to validation data.
"""

import keras
import numpy as np

import keras_likelihood as kl

keras.utils.set_random_seed(0)


def clouds(count, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    centres = np.random.default_rng(0).normal(size=(3, 10))
    x = centres[y] + 1.5 * rng.normal(size=(count, 10))
    return x.astype("float32"), y


x, y = clouds(400, seed=1)
network = keras.Sequential(
    [
        keras.Input((10,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(3, activation="softmax"),
    ]
)
network.compile("adam", "sparse_categorical_crossentropy")
network.fit(x, y, epochs=60, verbose=0)

# %%
# The network stays as it is. What is fitted is a temperature, linear in the
# features of its last hidden layer; the result is a Keras model again.

scaling = kl.recalibration.LinearFeatureScaling()
scaling.fit(network, *clouds(1000, seed=2))
x_test, y_test = clouds(3000, seed=3)
figure = kl.plots.compare_reliability(
    y_test,
    {
        "as trained": network.predict(x_test, verbose=0),
        "recalibrated": scaling.model.predict(x_test, verbose=0),
    },
)

# %%
# Points below the diagonal mean that the network is too sure of itself: of the
# predictions made with 90 % confidence far fewer than 90 % were right. After
# recalibration the points lie on the diagonal within their bars. The accuracy
# does not change, because dividing by a temperature changes no order. The
# histogram shows the difference: fewer answers are given with 100 %.
