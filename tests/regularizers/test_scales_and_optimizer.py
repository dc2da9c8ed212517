"""Scales that a callback moves are not variables of the optimizer."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood.regularizers.example_inputs import known_steps
from tests.batches import Repeated


@pytest.fixture
def data(rng):
    x = rng.standard_normal((96, 4)).astype("float32")
    return x, np.argmax(x[:, :3] + rng.standard_normal((96, 3)), axis=1)


def network(loss=None, **options):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    ridge = kl.regularizers.DRidge(num_examples=96, **options)
    outputs = keras.layers.Dense(3, kernel_regularizer=ridge)(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    loss = loss or kl.losses.SoftmaxLoss(temperature=1.0)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss=loss)
    return model


def scales(model):
    return [w.regularizer for w in kl.regularizers.adaptive_weights(model)]


def has_momentum(model):
    """Whether the optimizer keeps a momentum of a scale."""
    return any("log_scale" in v.path for v in model.optimizer.variables)


def test_the_optimizer_holds_the_weights_alone(data):
    model = network()
    model.fit(*data, epochs=8, verbose=0)
    (ridge,) = scales(model)
    assert not has_momentum(model)
    assert ridge.scale().item() != 1.0
    assert ridge.effective_weights(model.layers[1].kernel) > 0


@pytest.mark.filterwarnings("ignore:An adaptive regularizer measures")
@pytest.mark.parametrize(
    "case", ["few steps", "joint", "learned noise", "generator"]
)
def test_scales_that_need_the_optimizer_stay_in_it(data, case):
    x, y = data
    loss, options = None, {}
    arguments = {"x": x, "y": y, "epochs": 8}
    if case == "few steps":
        arguments["epochs"] = 2
    if case == "joint":
        options["objective"] = "joint"
    if case == "learned noise":
        loss = kl.losses.NormalLoss()
        arguments["y"] = np.eye(3)[y]
    if case == "generator":
        batches = ((x, y) for _ in range(32))
        arguments = {"x": batches, "steps_per_epoch": 32, "shuffle": False}
    model = network(loss, **options)
    model.fit(**arguments, verbose=0)
    assert has_momentum(model)
    (ridge,) = scales(model)
    assert ridge.trainable and ridge.scale().item() != 1.0


def test_an_optimizer_that_holds_them_keeps_them(data):
    model = network()
    model.fit(*data, epochs=1, verbose=0)
    model.fit(*data, epochs=8, verbose=0)
    assert has_momentum(model)
    (ridge,) = scales(model)
    assert float(ops.convert_to_numpy(ridge.measured)[0]) == 1.0


def test_a_saved_model_goes_on_with_its_momentum(data, tmp_path):
    model = network()
    model.fit(*data, epochs=8, verbose=0, shuffle=False)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for one, two in zip(
        model.optimizer.variables, again.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(
            ops.convert_to_numpy(one), ops.convert_to_numpy(two)
        )
    for each in (model, again):
        each.fit(*data, epochs=8, verbose=0, shuffle=False)
    np.testing.assert_allclose(
        scales(again)[0].scale(), scales(model)[0].scale(), rtol=1e-5
    )


def test_a_new_short_training_of_a_clone_learns_again(data):
    model = network()
    model.fit(*data, epochs=8, verbose=0)
    clone = keras.models.clone_model(model)
    clone.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        loss=kl.losses.SoftmaxLoss(temperature=1.0),
    )
    clone.fit(*data, epochs=2, verbose=0)
    assert has_momentum(clone)
    assert scales(clone)[0].scale().item() != 1.0


def test_a_model_that_shares_layers_does_not_bring_them_back(data):
    model = network()
    model.fit(*data, epochs=8, verbose=0)
    other = kl.LikelihoodModel.from_model(model)
    other.compile("sgd", loss=kl.losses.SoftmaxLoss(temperature=1.0))
    other.fit(*data, epochs=1, verbose=0)
    model.fit(*data, epochs=1, verbose=0)
    assert not has_momentum(model)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_stock_model_says_that_scales_stay(data):
    model = network()
    model.fit(*data, epochs=8, verbose=0)
    stock = keras.Model.from_config(
        keras.Model(model.inputs, model.outputs).get_config()
    )
    stock.compile(
        "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    with pytest.warns(UserWarning, match="stay as they are"):
        stock.fit(*data, verbose=0)


def test_steps_are_known_before_a_training(data):
    x, y = data
    assert known_steps(x, epochs=2) == 6
    assert known_steps({"a": x}, batch_size=10) == 10
    assert known_steps(x, steps_per_epoch=5, epochs=3) == 15
    assert known_steps(Repeated(7, x, y), epochs=2) == 14
    assert known_steps(iter([(x, y)])) == 0


@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="a mechanism of JAX"
)
def test_a_step_does_not_search_its_arrays_for_layers(data):
    kept = []

    class Keep(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            kept.append(type(self.model._jax_state))

    network().fit(*data, callbacks=[Keep()], verbose=0)
    assert set(kept) == {dict}
