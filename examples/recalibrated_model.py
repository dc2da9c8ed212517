"""
A calibrated classifier from an overconfident one
=================================================

A network is trained for too long on a small data set. Its predicted classes are
usable, but its probabilities are not. Fitting a temperature to validation data
corrects them.
"""

import pathlib
import tempfile

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
# The file is read and does not change. A temperature is fitted that is linear
# in the features of the last hidden layer. The result is a Keras model again.

path = pathlib.Path(tempfile.mkdtemp()) / "model.keras"
network.save(path)
scaling = kl.recalibration.LinearFeatureScaling()
scaling.fit(path, *clouds(1000, seed=2))
scaling.model.save(path.with_name("calibrated.keras"))
x_test, y_test = clouds(3000, seed=3)
figure = kl.plots.compare_reliability(
    y_test,
    {
        "as trained": network.predict(x_test, verbose=0),
        "recalibrated": scaling.model.predict(x_test, verbose=0),
    },
)

# %%
# Points below the diagonal mean that the network is overconfident: of the
# predictions with 90 % confidence, far fewer than 90 % are right. After
# recalibration, the points lie on the diagonal within their error bars. The
# accuracy does not change, because dividing by a temperature does not change
# the order of the classes. The histogram shows the difference: fewer
# predictions have a confidence of 100 %.
