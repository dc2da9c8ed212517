"""Learned parameters of a loss survive a new loss and a file."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from tests import contracts

pytestmark = pytest.mark.usefixtures("step_by_step")


@pytest.fixture
def data(rng):
    x = rng.normal(size=(32, 3)).astype("float32")
    return x, x[:, :1] + 0.1 * rng.normal(size=(32, 1)).astype("float32")


def fitted(x, y, loss=None):
    model = contracts.small_model(keras.layers.Dense(1), x)
    loss = kl.losses.NormalLoss() if loss is None else loss
    model.compile(keras.optimizers.SGD(0.2), loss=loss)
    model.fit(x, y, verbose=0)
    return model


def scale_of(model):
    return model.loss.parameter_values()["scale"]


def test_loading_without_compiling(data, tmp_path):
    model = fitted(*data)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras", compile=False)
    again.compile("sgd", loss=kl.losses.NormalLoss())
    assert scale_of(again) == pytest.approx(scale_of(model), rel=1e-6)
    assert scale_of(model) != 1.0


def test_loading_weights_before_compiling(data, tmp_path):
    model = fitted(*data)
    model.save_weights(tmp_path / "m.weights.h5")
    again = contracts.small_model(keras.layers.Dense(1), data[0])
    again.load_weights(tmp_path / "m.weights.h5")
    again.compile("sgd", loss=kl.losses.NormalLoss())
    assert scale_of(again) == pytest.approx(scale_of(model), rel=1e-6)


def test_recompiling_with_a_new_loss(data):
    model = fitted(*data)
    learned = scale_of(model)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    assert scale_of(model) == pytest.approx(learned, rel=1e-6)
    model.compile("sgd", loss="mse")
    model.compile("sgd", loss=kl.losses.NormalLoss())
    assert scale_of(model) == pytest.approx(learned, rel=1e-6)


def test_starting_over(data):
    model = fitted(*data)
    model.loss_parameters.forget()
    model.compile("sgd", loss=kl.losses.NormalLoss())
    assert scale_of(model) == pytest.approx(1.0)
    model = fitted(*data)
    start = kl.layers.GlobalParameter(initial=0.3)
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=start))
    assert scale_of(model) == pytest.approx(0.3)
    model.compile("sgd", loss=kl.losses.LaplaceLoss())
    assert scale_of(model) == pytest.approx(1.0)


@pytest.mark.filterwarnings(
    # PyTorch's tensors under NumPy 2, inside Keras.
    "ignore:__array__ implementation:DeprecationWarning"
)
def test_another_shape_starts_over_and_says_so(data):
    model = fitted(*data)
    with pytest.warns(UserWarning, match="starts from its initial value"):
        model.compile("sgd", loss=kl.losses.NormalLoss(dimension="channel"))


def test_a_table_of_examples_is_kept(data, tmp_path):
    x, y = data
    scale = kl.DataParameter(32, learning_rate=0.5)
    model = contracts.small_model(keras.layers.Dense(1), x)
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=scale))
    model.fit(x, kl.indexed(y), verbose=0)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras", compile=False)
    table = kl.DataParameter(32)
    again.compile("sgd", loss=kl.losses.NormalLoss(scale=table))
    np.testing.assert_array_equal(table.values(), scale.values())


@pytest.mark.filterwarnings(
    # The stock model has no optimizer whose state could be loaded.
    "ignore:Skipping variable loading for optimizer"
)
def test_weights_of_a_stock_model(data, tmp_path):
    x, y = data
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(5, activation="tanh")(inputs)
    stock = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    stock.save_weights(tmp_path / "m.weights.h5")
    model = fitted(x, y)
    learned = scale_of(model)
    model.load_weights(tmp_path / "m.weights.h5")
    np.testing.assert_allclose(
        model.predict(x, verbose=0), stock.predict(x, verbose=0), rtol=1e-6
    )
    assert scale_of(model) == learned
    model.set_weights(stock.get_weights())
    assert scale_of(model) == learned


def test_h5_files_are_refused(data, tmp_path):
    model = fitted(*data)
    with pytest.raises(ValueError, match="'.keras'.*m.h5"):
        model.save(tmp_path / "m.h5")


def test_restoring_the_best_weights_restores_the_loss(data):
    x, y = data
    model = fitted(x, y)
    best = scale_of(model)
    weights = model.get_weights()
    model.fit(x, y, epochs=3, verbose=0)
    assert scale_of(model) != best
    model.set_weights(weights)
    assert scale_of(model) == best
    stop = keras.callbacks.EarlyStopping(
        "loss", mode="max", patience=1, restore_best_weights=True
    )
    model.fit(x, y, epochs=5, verbose=0, callbacks=[stop])
    assert stop.best_epoch == 0
