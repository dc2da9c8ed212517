"""Weights whose size means nothing get a decay, and others an evidence."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import regularizers
from keras_likelihood.regularizers.scale_free import (
    DECAY_OF_A_TRAINING,
    decay_strength,
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
    strength = decay_strength(adam, 100, 16, spread=2.0)
    assert strength == pytest.approx(DECAY_OF_A_TRAINING / 100 / 0.01 * 0.5)
    assert decay_strength(keras.optimizers.Ftrl(0.01), 100, 16, 2.0) is None
