"""Which model trains a loss is explicit."""

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


def stock_model():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])


@pytest.mark.few(0)
@pytest.mark.filterwarnings(
    # PyTorch's tensors under NumPy 2, inside Keras.
    "ignore:__array__ implementation:DeprecationWarning"
)
def test_a_stock_model_warns_of_a_loss_that_another_model_trains(data):
    x, y = data
    for given in (None, "global"):
        loss = kl.losses.NormalLoss(given)
        model = contracts.small_model(keras.layers.Dense(1), x)
        model.compile("sgd", loss=loss)
        model.fit(x, y, verbose=0)
        stock = stock_model()
        stock.compile("sgd", loss=loss)
        with pytest.warns(UserWarning, match="keep their values"):
            stock.train_on_batch(x, y)


def test_binding_a_parameter_again_keeps_its_value(data):
    x, y = data
    scale = kl.layers.GlobalParameter(initial=0.5)
    model = contracts.small_model(keras.layers.Dense(1), x)
    model.compile(
        keras.optimizers.SGD(0.5), loss=kl.losses.NormalLoss(scale=scale)
    )
    model.fit(x, y, verbose=0)
    learned = scale.latest
    assert learned != 0.5
    again = kl.losses.NormalLoss(scale=scale)
    assert again.parameter_values()["scale"] == learned
    with pytest.raises(ValueError, match="Received: 'scale' of laplace"):
        kl.losses.LaplaceLoss(scale=scale)


def test_a_parameter_of_two_losses_is_one_variable(data):
    x, y = data
    scale = kl.layers.GlobalParameter()
    inputs = keras.Input((3,))
    model = kl.LikelihoodModel(
        inputs, {k: keras.layers.Dense(1)(inputs) for k in "ab"}
    )
    model.compile(
        "sgd", loss={k: kl.losses.NormalLoss(scale=scale) for k in "ab"}
    )
    assert len(model.trainable_variables) == 5
    model.fit(x, {"a": y, "b": y}, verbose=0)


@pytest.mark.parametrize("kind", ["one", "dict"])
def test_a_loss_class_is_made_into_a_loss(data, kind):
    x, y = data
    inputs = keras.Input((3,))
    output = keras.layers.Dense(1)(inputs)
    if kind == "dict":
        model = kl.LikelihoodModel(inputs, {"y": output})
        model.compile("sgd", loss={"y": kl.losses.NormalLoss})
        y = {"y": y}
    else:
        model = kl.LikelihoodModel(inputs, output)
        model.compile("sgd", loss=kl.losses.NormalLoss)
    history = model.fit(x, y, verbose=0).history
    assert "scale" in history or "y_scale" in history


def test_a_model_inside_another_keeps_its_loss_to_itself(data):
    x, y = data
    inner = contracts.small_model(keras.layers.Dense(1), x)
    inner.compile("sgd", loss=kl.losses.NormalLoss(), metrics=["mae"])
    inputs = keras.Input((3,))
    for kind in (keras.Model, kl.LikelihoodModel):
        outer = kind(inputs, inner(inputs))
        outer.compile("sgd", loss="mse")
        assert len(outer.trainable_variables) == 4
        assert set(outer.fit(x, y, verbose=0).history) == {"loss"}
    assert "scale" in inner.fit(x, y, verbose=0).history


def test_a_loop_of_ones_own_trains_what_it_adopts(data):
    """A loop over `compute_loss` trains the scale on every backend."""
    x, y = data
    model = contracts.small_model(keras.layers.Dense(1), x)
    model.compile(keras.optimizers.SGD(0.5), loss=kl.losses.NormalLoss())
    before = model.loss.parameter_values()["scale"]
    for _ in range(3):
        model.train_on_batch(x, y)
    model.test_on_batch(x, y)
    assert model.loss.parameter_values()["scale"] < before
    assert np.isfinite(contracts.as_numpy(model.compute_loss(x, y, model(x))))
