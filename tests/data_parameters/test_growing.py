"""Tables get rows for new examples, lose some, and take those of others."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters import FileTable

ROWS = 40


def make(path=None, **options):
    table = path and FileTable(path)
    scale = kl.DataParameter(ROWS, dimension="element", table=table, **options)
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(2, kernel_initializer="ones")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=scale))
    return model, scale


def example_data():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(ROWS, 3)).astype("float32")
    return x, rng.normal(size=(ROWS, 2)).astype("float32")


def fit(model, *callbacks):
    x, y = example_data()
    model.fit(x, kl.indexed(y), callbacks=[*callbacks], verbose=0)


class Append(keras.callbacks.Callback):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def on_train_batch_begin(self, batch, logs=None):
        self.scale.append(1)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_growing_data(tmp_path, kind):
    model, scale = make(tmp_path / "scale.npy" if kind == "file" else None)
    fit(model)
    values, state = scale.values(), scale.state()
    x, y = example_data()
    assert scale.append(2) is scale
    assert scale.num_examples == ROWS + 2
    np.testing.assert_allclose(scale.values([-1, -2]), 1.0, rtol=1e-6)
    new = kl.indexed(y[:2], index=np.array([ROWS, ROWS + 1]))
    model.fit(x[:2], new, verbose=0)
    assert (scale.values()[-2:] != 1.0).all()
    np.testing.assert_array_equal(scale.state(slice(ROWS)), state)
    model.evaluate(x[:2], new, verbose=0)
    order = np.arange(ROWS)[::-1]
    scale.keep(order)
    np.testing.assert_allclose(scale.values(), values[::-1], rtol=1e-6)
    _, other = make()
    scale.join(other)
    assert scale.values().shape == (2 * ROWS, 2)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = loaded.data_parameters["scale"]
    np.testing.assert_array_equal(again.state(), scale.state())
    with pytest.raises(ValueError, match="another table"):
        scale.join(make(initial=3.0)[1])
    with pytest.raises(ValueError, match="at least one row"):
        scale.keep([])
    with pytest.raises(ValueError, match="while `fit` runs"):
        fit(model, Append(scale))
    # The rows are replaced in a file of the same name.
    fit(model)
