"""Private names of other libraries that the package uses still exist."""

import pathlib
import re

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.backend import private
from tests import contracts

ROOT = pathlib.Path(__file__).parents[1] / "keras_likelihood"


def test_functional_models_have_a_class_of_their_own():
    functional = private.functional_model_class()
    inputs = keras.Input((2,))
    stock = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    assert type(stock) is functional is not keras.Model
    made = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(inputs))
    assert isinstance(made, functional)
    assert not issubclass(kl.LikelihoodModel, functional)


def test_a_subclass_becomes_functional_and_others_do_not():
    class Model(kl.LikelihoodModel):
        def __init__(self, width):
            inputs = keras.Input((2,))
            super().__init__(inputs, keras.layers.Dense(width)(inputs))

    assert isinstance(Model(3), private.functional_model_class())
    assert not issubclass(Model, private.functional_model_class())


def test_the_layer_behind_a_tensor():
    inputs = keras.Input((2,))
    layer = keras.layers.Dense(1)
    first, second = layer(inputs), layer(inputs)
    assert private.producer(first)[0] is layer
    assert private.producer(second)[0] is layer


@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="JAX keeps values elsewhere"
)
def test_jax_takes_the_values_of_a_model_out_of_its_variables():
    seen = []

    class Look(keras.callbacks.Callback):
        def __init__(self, model):
            self.looked_at = model

        def set_model(self, model):
            """Does not keep the model, whose values would be put back."""

        def on_train_batch_end(self, batch, logs=None):
            seen.append(private.has_values(self.looked_at))
            for name in private.UNTRACKED:
                assert isinstance(getattr(self.looked_at, name), dict)

    x = np.zeros((4, 2), "float32")
    model = contracts.small_model(kl.layers.ScaleHead(1), x)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    assert private.has_values(model)
    model.fit(x, x[:, :1], verbose=0, callbacks=[Look(model)])
    assert seen == [False] and private.has_values(model)


@pytest.mark.one_backend
def test_private_names_are_used_in_one_file():
    """Of Keras, TensorFlow, JAX, NumPy and scikit-learn."""
    names = (
        "keras_history|inbound_nodes|jax_state|jax_state_synced|compile_loss|"
        "compile_metrics|aggregate_additional_loss|map_func|mmap|keras_mask|"
        "as_serialized_graph|flatten_layers|check_sample_weight|"
        "reshuffle_each_iteration"
    )
    pattern = re.compile(rf"\b_({names})\b|__class__ =|jax\._src|keras\.src")
    for path in ROOT.rglob("*.py"):
        if path != ROOT / "backend" / "private.py":
            assert not pattern.search(path.read_text()), path
