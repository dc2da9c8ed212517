"""Targets marked as missing act as if their rows were not there."""

import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from tests import contracts

pytestmark = pytest.mark.usefixtures("step_by_step")
KNOWN = np.arange(24) % 3 > 0


@pytest.fixture
def x(rng):
    return rng.normal(size=(24, 3)).astype("float32")


def metrics():
    own = kl.metrics.NegativeLogLikelihood(), kl.metrics.CalibrationError()
    return {"metrics": ["mse", *own], "weighted_metrics": ["mae"]}


def evaluated(model, *data, **options):
    return model.evaluate(*data, verbose=0, return_dict=True, **options)


def model_of(loss, units=1, head=kl.layers.ScaleHead, **options):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    model = kl.LikelihoodModel(inputs, head(units)(inputs))
    model.compile(keras.optimizers.SGD(0.1), loss=loss, **options)
    return model


@pytest.mark.parametrize("mark", ["nan", -99.0])
@pytest.mark.parametrize("kind", ["arrays", "generator", "tf.data"])
def test_training_equals_training_without_these_rows(kind, mark, x):
    y = x[:, :1].copy()
    y[~KNOWN] = np.nan if mark == "nan" else mark
    steps = {"epochs": 4, "verbose": 0, "shuffle": False}
    given = {"x": x, "y": y, "batch_size": 24}
    if kind == "generator":
        given = {"x": (batch for batch in [(x, y)] * 4), "steps_per_epoch": 1}
    if kind == "tf.data":
        tf = pytest.importorskip("tensorflow")
        given = {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(24)}
    model = model_of(kl.losses.NormalLoss(missing=mark), **metrics())
    model.fit(**given, **steps)
    other = model_of(kl.losses.NormalLoss(), **metrics())
    other.fit(x[KNOWN], y[KNOWN], batch_size=16, **steps)
    weights = model.get_weights(), other.get_weights()
    contracts.assert_equal_outputs(*weights, rtol=1e-4, atol=1e-6)
    found = evaluated(model, x, y)
    assert found == pytest.approx(evaluated(other, x[KNOWN], y[KNOWN]), 1e-4)
    batches = evaluated(model, x, y, batch_size=7)
    batches["loss"] = found["loss"]  # Keras averages over batches
    assert batches == pytest.approx(found, rel=1e-4)


@pytest.mark.parametrize("kind", ["dict", "list"])
def test_each_output_has_its_own_missing_labels(kind, x, tmp_path):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    layers = [keras.layers.Dense(1, name="a"), keras.layers.Dense(3, name="b")]
    losses = [kl.losses.NormalLoss(0.5, missing="nan")]
    losses.append(kl.losses.SoftmaxLoss(1.0, missing=255))
    y = [x[:, 0].copy(), np.arange(24) % 3]
    y[0][KNOWN], y[1][4:9] = np.nan, 255
    outputs, targets, loss = [one(inputs) for one in layers], y, losses
    scores = [["mse"], ["accuracy"]]
    if kind == "dict":
        outputs, targets, loss, scores = (
            dict(zip("ab", part, strict=True))
            for part in (outputs, y, losses, scores)
        )
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("sgd", loss=loss, metrics=scores)
    found = evaluated(model, x, targets, batch_size=7)
    kept = [~KNOWN, y[1] != 255]
    for name, layer, own, rows, part, metric in zip(
        "ab", layers, losses, kept, y, ("mse", "accuracy"), strict=True
    ):
        alone = kl.LikelihoodModel(inputs, layer(inputs))
        alone.compile("sgd", loss=own, metrics=[metric])
        expected = evaluated(alone, x[rows], part[rows])
        assert found[f"{name}_loss"] == pytest.approx(expected["loss"], 1e-5)
        assert found[f"{name}_{metric}"] == pytest.approx(
            expected[metric], 1e-5
        )
    contracts.training_moves_every_weight(model, x, targets)
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    assert evaluated(again, x, targets) == pytest.approx(
        evaluated(model, x, targets), rel=1e-5
    )


def test_one_unit_of_several_may_be_missing(x):
    y = x[:, :2].copy()
    y[::2, 1] = np.nan
    known = ~np.isnan(y)
    model = model_of(kl.losses.NormalLoss(missing="nan"), 2, metrics=["mse"])
    model.adapt(y)
    units = [v.numpy() for v in model.layers[-1].target_units]
    for unit in range(2):
        alone = kl.layers.ScaleHead(1)
        alone.adapt(y[known[:, unit], unit])
        expected = np.ravel([v.numpy() for v in alone.target_units])
        np.testing.assert_allclose([v[unit] for v in units], expected)
    found = evaluated(model, x, y)
    prediction, scale = model.predict(x, verbose=0)
    normal = kl.likelihoods.Normal(prediction, scale=scale)
    nll = contracts.as_numpy(normal.nll(np.nan_to_num(y)))
    error = (prediction - y) ** 2
    assert found["loss"] == pytest.approx(nll[known].mean(), rel=1e-5)
    assert found["mse"] == pytest.approx(error[known].mean(), rel=1e-5)


def test_steps_of_masked_sequences_may_be_missing(rng):
    x = rng.normal(size=(4, 5, 2)).astype("float32")
    x[:, 4:] = 0.0
    y = x[..., 0].copy()
    y[:, ::2] = np.nan
    inputs = keras.Input((5, 2))
    hidden = keras.layers.Masking()(inputs)
    model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1)(hidden))
    loss = kl.losses.NormalLoss(missing="nan")
    model.compile("sgd", loss=loss, metrics=["mse"])
    found = evaluated(model, x, y)
    error = model.predict(x, verbose=0)[0][..., 0] - y
    assert found["mse"] == pytest.approx(np.mean(error[:, [1, 3]] ** 2), 1e-5)
    kept = evaluated(
        model, x[:, [1, 3, 4, 4, 4]], np.nan_to_num(y[:, [1, 3, 4, 4, 4]])
    )
    assert found == pytest.approx(kept, rel=1e-5)


def test_adapt_and_rows_leave_them_out(x):
    y = 40 + 5 * x[:, 0]
    y[~KNOWN] = -1
    rows = np.flatnonzero(KNOWN)
    values = []
    for targets, mark in (
        (kl.indexed(y), -1),
        (kl.indexed(y[rows], index=rows), None),
    ):
        scale = kl.DataParameter(24, learning_rate=0.3)
        loss = kl.losses.NormalLoss(scale=scale, missing=mark)
        model = model_of(loss, head=keras.layers.Dense)
        inputs = x if mark else x[rows]
        model.fit(inputs, targets, epochs=3, batch_size=24, verbose=0)
        values.append(scale.values())
        head = model_of(kl.losses.NormalLoss(missing=mark))
        head.adapt(y if mark else y[rows])
        values.append(
            np.ravel([v.numpy() for v in head.layers[-1].target_units])
        )
        if mark:
            assert not scale.state()[~KNOWN].any()
    np.testing.assert_allclose(values[0], values[2], rtol=1e-4)
    np.testing.assert_allclose(values[1], values[3], rtol=1e-6)


ON_TWO_DEVICES = """
import numpy as np, tensorflow as tf
two = [tf.config.LogicalDeviceConfiguration()] * 2
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, two)
import keras_likelihood as kl

y = np.random.default_rng(0).normal(size=(16, 1)).astype("float32")
y[:7] = np.nan
loss = kl.losses.NormalLoss(scale=1.0, missing="nan")
expected = float(loss(y, np.zeros_like(y)))
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

@tf.function
def part(y):
    return loss(y, 0 * tf.ones_like(y))

first = lambda c: y[8 * c.replica_id_in_sync_group :][:8]
halves = strategy.experimental_distribute_values_from_function(first)
each = strategy.run(part, args=(halves,))
found = sum(map(float, strategy.experimental_local_results(each)))
assert abs(found - expected) < 1e-5 * abs(expected), (found, expected)
"""


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="TensorFlow only"
)
@pytest.mark.few(0)
def test_several_devices_count_all_labels():
    command = [sys.executable, "-c", ON_TWO_DEVICES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
