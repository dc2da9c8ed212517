"""Trains, saves and loads a model where only the wheel is installed."""

import pathlib
import sys
import tempfile

import keras
import numpy as np

import keras_likelihood as kl

assert "site-packages" in kl.__file__, kl.__file__
assert "tensorflow" not in sys.modules

rng = np.random.default_rng(0)
x = rng.normal(size=(64, 3)).astype("float32")
inputs = keras.Input((3,))
model = kl.LikelihoodModel(inputs, kl.layers.RobustRhoHead(1)(inputs))
model.compile("adam", loss=kl.losses.RobustRhoLoss())
model.fit(x, x[:, :1], verbose=0)
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "model.keras"
    model.save(path)
    again = keras.models.load_model(path)
for a, b in zip(
    model.predict(x, verbose=0), again.predict(x, verbose=0), strict=True
):
    np.testing.assert_allclose(a, b, rtol=1e-6)
low, high = again.predict_distribution(x, verbose=0).interval(0.9)
assert np.all(np.asarray(low) < np.asarray(high))
print(f"keras_likelihood {kl.__version__} works on {keras.backend.backend()}")
