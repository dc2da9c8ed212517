"""Several threads use one model, and an error leaves it whole."""

import threading

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.tabular.batches import predict_rows


def in_threads(function, count=4, times=5):
    """Results of a function in several threads, or the errors."""
    found = []

    def run():
        for _ in range(times):
            try:
                found.append(function())
            except Exception as error:
                found.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == count * times
    return found


def make(rng):
    inputs = keras.Input((3,))
    model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1)(inputs))
    model.compile("adam", loss=kl.losses.NormalLoss())
    x = rng.normal(size=(16, 3)).astype("float32")
    return model, x, x[:, :1]


@pytest.mark.few(0)
@pytest.mark.parametrize("kind", ["model", "stock model"])
def test_predictions(rng, kind):
    model, x, y = make(rng)
    if kind == "model":
        expected = model.predict(x, verbose=0)[0]
        found = in_threads(lambda: model.predict(x, verbose=0)[0])
    else:
        stock = keras.Model(model.inputs, model.outputs[0])
        stock.compile("sgd", "mse")
        expected = stock.predict(x, verbose=0)
        found = in_threads(lambda: predict_rows(stock, x))
    for result in found:
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    model.fit(x, y, verbose=0)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="JAX moves values")
def test_predictions_during_a_training_are_refused(rng):
    model, x, y = make(rng)
    model.predict(x, verbose=0)
    found = []

    class Meanwhile(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            found.extend(in_threads(lambda: model.predict(x, verbose=0), 1, 1))
            # Its own thread may.
            found.append(model.predict(x, verbose=0)[0])

    model.fit(x, y, callbacks=[Meanwhile()], verbose=0)
    assert isinstance(found[0], RuntimeError)
    assert "call during `fit`" in str(found[0])
    assert np.isfinite(found[1]).all()
