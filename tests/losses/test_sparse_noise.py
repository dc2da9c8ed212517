"""SOP: vectors per example explain wrong labels, and two views agree."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood.likelihoods import SparseNoise


def test_nll_is_that_of_the_paper(rng):
    logits = rng.normal(size=(5, 4)).astype("float32")
    noise = rng.uniform(0.1, 0.6, size=(5, 4)).astype("float32")
    y = np.array([0, 3, 1, 2, 2])
    found = SparseNoise(logits, noise=noise).nll(y)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    one_hot = np.eye(4)[y]
    signed = noise**2 * (2 * one_hot - 1)
    q = np.maximum(p + signed, 1e-4)
    q /= q.sum(axis=1, keepdims=True)
    hard = np.eye(4)[p.argmax(axis=1)]
    expected = -np.log(q[np.arange(5), y])
    expected += ((hard + signed - one_hot) ** 2).sum(axis=1)
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, rtol=1e-5)
    plain = SparseNoise(logits).nll(y)
    np.testing.assert_allclose(
        ops.convert_to_numpy(plain), -np.log(p[np.arange(5), y]), rtol=1e-4
    )


def model_of_views(noise):
    inputs = keras.Input((4, 4, 1))
    strong = keras.layers.RandomTranslation(0.25, 0.25, seed=0)
    h = kl.layers.TwoViews(keras.layers.Identity(), strong)(inputs)
    logits = keras.layers.Dense(3)(keras.layers.Flatten()(h))
    model = kl.LikelihoodModel(inputs, logits)
    loss = kl.losses.NoisyLabelsLoss(noise, method="sparse")
    model.compile(keras.optimizers.Adam(0.03), loss=loss, metrics=["accuracy"])
    return model


def test_vectors_of_wrong_labels_grow(tmp_path, rng):
    keras.utils.set_random_seed(0)
    truth = np.arange(90) % 3
    x = 0.2 * rng.random(size=(90, 4, 4, 1)).astype("float32")
    x[np.arange(90), :, truth] += 0.8
    y = truth.copy()
    y[:9] = (truth[:9] + 1) % 3
    noise = kl.DataParameter(90, initial=0.05)
    model = model_of_views(noise)
    model.fit(x, kl.indexed(y), epochs=30, batch_size=30, verbose=0)
    # Layers that move pixels must not make the whole model run eagerly.
    assert model.jit_compile or keras.backend.backend() != "jax"
    rows = (noise.values() ** 2).max(axis=1)
    assert noise.values().shape == (90, 3)
    assert rows[:9].min() > rows[9:].max()
    assert model.predict(x, verbose=0).shape == (90, 3)
    assert model.evaluate(x, truth, verbose=0)[1] == 1
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        loaded.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-5
    )
    (again,) = loaded.data_parameters.values()
    np.testing.assert_allclose(again.values(), noise.values())


def test_a_step_of_a_row_does_not_depend_on_the_batch():
    rule = kl.data_parameters.SparseSGD(0.5)
    for size in (2, 8):
        state = ops.zeros((size, 1, 1))
        gradient = ops.ones((size, 1)) / size
        index = ops.arange(size)
        moved, _ = rule.step(state, gradient, index, ops.ones(size, "bool"))
        np.testing.assert_allclose(ops.convert_to_numpy(moved), -0.5)


def test_what_is_refused():
    with pytest.raises(ValueError, match="one row for each training example"):
        kl.losses.NoisyLabelsLoss(1.0, method="sparse")
    with pytest.raises(ValueError, match="learning_rate"):
        kl.data_parameters.SparseSGD(-1.0)


def test_rows_of_views_are_adjacent():
    x = np.arange(12.0).reshape(3, 4)
    strong = keras.layers.Rescaling(2.0)
    layer = kl.layers.TwoViews(keras.layers.Identity(), strong)
    views = ops.convert_to_numpy(layer(x, training=True))
    np.testing.assert_array_equal(views[::2], x)
    np.testing.assert_array_equal(views[1::2], 2 * x)
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(x)), x)
