"""Promises that every head and every loss keeps.

Each contract is a function that raises when the object breaks it; the broken
twins in `test_contracts.py` prove that it can.
"""

import keras
import numpy as np
from keras import ops

import keras_likelihood as kl

FEATURES = 5
UNITS = 3


def targets_for(likelihood, shape, rng):
    """Targets for a prediction of the given shape."""
    if likelihood.event_rank:
        return rng.integers(0, shape[-1], size=shape[:-1])
    if likelihood.name() == "bernoulli":
        return rng.integers(0, 2, size=shape).astype("float32")
    return rng.normal(size=shape).astype("float32")


def as_numpy(tree):
    return keras.tree.map_structure(ops.convert_to_numpy, tree)


def assert_equal_outputs(first, second, **tolerance):
    first, second = keras.tree.flatten(first), keras.tree.flatten(second)
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


def head_starts_at_the_initial_values(head, initial):
    """Whatever the features, parameters start where they are told to."""
    features = np.random.default_rng(1).normal(size=(4, 6, FEATURES)) * 10
    _, *parameters = as_numpy(head(features.astype("float32")))
    for name, value in zip(initial, parameters, strict=True):
        np.testing.assert_allclose(value, initial[name], rtol=1e-5)


def head_broadcasts_with_its_prediction(head, features):
    prediction, *parameters = head(features)
    for value in parameters:
        assert len(value.shape) == len(prediction.shape)
        np.broadcast_shapes(tuple(value.shape), tuple(prediction.shape))
        assert value.shape[0] == prediction.shape[0]


def symbolic_and_eager_shapes_agree(layer, features):
    symbolic = layer(keras.Input(features.shape[1:]))
    for spec, value in zip(symbolic, layer(features), strict=True):
        assert tuple(spec.shape[1:]) == tuple(value.shape[1:])
        assert spec.dtype == keras.backend.standardize_dtype(value.dtype)


def config_keeps_outputs(layer, features):
    """A layer made anew from its config, with its weights, answers alike."""
    expected = as_numpy(layer(features))
    twin = type(layer).from_config(layer.get_config())
    twin(features)
    twin.set_weights(layer.get_weights())
    assert_equal_outputs(expected, as_numpy(twin(features)), rtol=1e-6)


def model_survives_saving(model, x, y, path):
    """Outputs, loss and the next training step are those of the original."""
    model.save(path)
    again = keras.models.load_model(path)
    assert_equal_outputs(
        model.predict(x, verbose=0), again.predict(x, verbose=0), rtol=1e-6
    )
    np.testing.assert_allclose(
        model.evaluate(x, y, verbose=0),
        again.evaluate(x, y, verbose=0),
        rtol=1e-6,
    )
    for m in (model, again):
        m.train_on_batch(x, y)
    assert_equal_outputs(
        [as_numpy(v.value) for v in model.trainable_variables],
        [as_numpy(v.value) for v in again.trainable_variables],
        rtol=1e-5,
        atol=1e-6,
    )


def training_moves_every_weight(model, x, y):
    before = [as_numpy(v.value) for v in model.trainable_variables]
    history = model.fit(x, y, epochs=2, verbose=0).history
    assert np.all(np.isfinite(history["loss"]))
    for variable, old in zip(model.trainable_variables, before, strict=True):
        new = as_numpy(variable.value)
        assert np.all(np.isfinite(new)), variable.path
        assert not np.array_equal(new, old), f"{variable.path} never moved"


def sample_weight_counts_examples(loss, y_true, y_pred):
    """Under a sum, weight 0 drops an example and weight 2 doubles it."""
    rows = len(y_true)
    weight = np.zeros(rows, dtype="float32")
    weight[0], weight[1] = 1.0, 2.0
    kept = np.array([0, 1, 1])
    found = loss(y_true, y_pred, weight)
    expected = loss(
        y_true[kept], keras.tree.map_structure(lambda p: p[kept], y_pred)
    )
    np.testing.assert_allclose(
        as_numpy(found), as_numpy(expected), rtol=1e-5, atol=1e-6
    )


def small_model(outputs_of, x):
    """A functional model around `outputs_of(features)`."""
    inputs = keras.Input(x.shape[1:])
    features = keras.layers.Dense(FEATURES, activation="tanh")(inputs)
    return kl.LikelihoodModel(inputs, outputs_of(features))
