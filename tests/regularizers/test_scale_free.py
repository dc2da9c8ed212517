"""Weights whose size means nothing get a decay, and others an evidence."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import regularizers
from keras_likelihood.regularizers.fisher import FisherFactors
from keras_likelihood.regularizers.scale_free import (
    DECAY_OF_A_TRAINING,
    decay_strength,
    known_by_graph,
)


def network(normalisation, examples):
    def ridge():
        return regularizers.DRidge(num_examples=examples)

    inputs = keras.Input((6,))
    h = keras.layers.Dense(
        8, use_bias=False, kernel_regularizer=ridge(), name="normalised"
    )(inputs)
    h = ops.relu(normalisation(h))
    h = keras.layers.Dense(8, "relu", kernel_regularizer=ridge(), name="free")(
        h
    )
    outputs = keras.layers.Dense(3, kernel_regularizer=ridge(), name="last")(h)
    return kl.LikelihoodModel(inputs, outputs)


@pytest.mark.parametrize(
    "normalisation",
    [keras.layers.BatchNormalization, keras.layers.LayerNormalization],
)
def test_only_kernels_in_front_of_a_normalisation_are_scale_free(
    normalisation, rng
):
    x = rng.standard_normal((256, 6)).astype("float32")
    y = rng.integers(0, 3, 256)
    model = network(normalisation(), len(x))
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.5),
        loss=kl.losses.SoftmaxLoss(temperature=1.0),
    )
    model.fit(x, y, batch_size=32, epochs=3, verbose=0)
    rows = {r.path.split("/")[0]: r for r in regularizers.report(model)}
    free = {name for name, row in rows.items() if np.isnan(row.effective)}
    assert free == {"normalised"}
    # `strength` is that of Keras' L2, the sum of squares: half a decay.
    expected = DECAY_OF_A_TRAINING / (0.05 / (1 - 0.5) * 24)
    assert rows["normalised"].strength == pytest.approx(expected / 2, rel=1e-4)
    assert rows["normalised"].off == 0
    assert "-" in str(regularizers.report(model))
    assert np.all(np.isfinite(model.predict(x, verbose=0)))


def test_looking_leaves_the_moving_averages_as_they_were(rng):
    x = rng.standard_normal((64, 6)).astype("float32")
    model = network(keras.layers.BatchNormalization(), len(x))
    model.compile("sgd", loss=kl.losses.SoftmaxLoss(temperature=1.0))
    callback = regularizers.MeasuredCurvature(x)
    callback.set_model(model)
    callback.set_params({"epochs": 1, "steps": 2})
    callback.on_train_begin()
    before = [ops.convert_to_numpy(v).copy() for v in model.variables]
    spreads = callback._factors.scale_free(x, len(x))
    after = [ops.convert_to_numpy(v) for v in model.variables]
    assert [s is None for s in spreads] == [False, True, True]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_decay_sums_to_the_same_under_a_schedule():
    schedule = keras.optimizers.schedules.CosineDecay(0.2, 1000)
    optimizer = keras.optimizers.SGD(schedule, momentum=0.9)
    strength = decay_strength(optimizer, 1000, 128, 1.0)
    rates = [float(ops.convert_to_numpy(schedule(i))) for i in range(1000)]
    total = strength * sum(rates) / (1 - 0.9)
    assert total == pytest.approx(DECAY_OF_A_TRAINING, rel=0.02)


def test_adam_divides_the_decay_by_the_size_of_its_gradients():
    adam = keras.optimizers.Adam(0.01)
    strength = decay_strength(adam, 100, 16, gradient_rms=2.0)
    assert strength == pytest.approx(DECAY_OF_A_TRAINING / 100 / 0.01 * 0.5)
    assert decay_strength(keras.optimizers.Ftrl(0.01), 100, 16, 2.0) is None


def test_the_graph_tells_which_kernels_a_normalisation_follows():
    inputs = keras.Input((8, 8, 3))
    conv = keras.layers.Conv2D(4, 3, use_bias=False)
    x = ops.relu(keras.layers.BatchNormalization()(conv(inputs)))
    beside = keras.layers.Conv2D(4, 3, padding="same")
    y = beside(x)
    x = ops.relu(keras.layers.BatchNormalization()(y) + y)
    frozen = keras.layers.Conv2D(4, 3)
    x = keras.layers.BatchNormalization(trainable=False)(frozen(x))
    bent = keras.layers.Conv2D(4, 3, activation="tanh")
    x = keras.layers.BatchNormalization()(bent(x))
    x = keras.layers.GlobalAveragePooling2D()(x)
    last = keras.layers.Dense(2)
    model = keras.Model(inputs, last(x))
    layers = [conv, beside, frozen, bent, last]
    kernels = [layer.kernel for layer in layers]
    assert known_by_graph(model, kernels) == [True, None, None, None, False]
    again = keras.Model(inputs, last(x) + last(2.0 * x))
    assert known_by_graph(again, kernels) == [None] * 5
    # What a later model does with a layer is no matter of the first one.
    assert known_by_graph(model, kernels) == [True, None, None, None, False]


@pytest.mark.parametrize("steps", [12, 20])
def test_a_known_network_is_not_searched(steps, rng, monkeypatch):
    def searched(*_):
        raise AssertionError("The graph tells which kernels are free.")

    monkeypatch.setattr(FisherFactors, "scale_free", searched)
    x = rng.standard_normal((64, 6)).astype("float32")
    inputs = keras.Input((6,))
    priors = [regularizers.DRidge(num_examples=64) for _ in range(2)]
    h = keras.layers.Dense(8, kernel_regularizer=priors[0])(inputs)
    h = ops.relu(keras.layers.BatchNormalization()(h))
    outputs = keras.layers.Dense(3, kernel_regularizer=priors[1])(h)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9),
        loss=kl.losses.SoftmaxLoss(temperature=1.0),
    )
    y = rng.integers(0, 3, 64)
    model.fit(x, y, batch_size=16, epochs=steps // 4, verbose=0)
    strength = DECAY_OF_A_TRAINING / (0.05 / (1 - 0.9) * steps)
    assert priors[0].is_scale_free and not priors[1].is_scale_free
    assert priors[0].strength().item() == pytest.approx(strength / 2, rel=1e-4)
    # Below 16 steps nothing is measured, and the optimizer moves the scale.
    assert priors[1].scale().item() != 1.0
    measured = ops.convert_to_numpy(priors[1].measured)[0]
    assert measured == (1.0 if steps >= 16 else 0.0)
