"""Training on several devices gives the same numbers as on one."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters import SparseRMSProp

ROWS = 1001
DEVICES = 8


def train():
    """A few steps on fixed data, with rows repeated within a batch."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3)).astype("float32")
    y = rng.normal(size=(64, 2)).astype("float32")
    index = 31 * rng.integers(0, 32, 64)
    tables = {
        name: kl.DataParameter(
            ROWS,
            dimension="element",
            optimizer=SparseRMSProp(momentum=0.5),
        )
        for name in ("df", "scale")
    }
    inputs = keras.Input((3,))
    dense = keras.layers.Dense(
        2, kernel_initializer="ones", kernel_regularizer="l2"
    )
    model = kl.LikelihoodModel(inputs, dense(inputs))
    loss = kl.losses.StudentTLoss(**tables)
    model.compile(keras.optimizers.SGD(0.1), loss=loss)
    model.fit(
        x,
        kl.indexed(y, index=index),
        batch_size=16,
        epochs=2,
        shuffle=False,
        callbacks=[*tables.values()],
        verbose=0,
    )
    return model


def results(model):
    tables = model.data_parameters
    logs = model.history.history if hasattr(model, "history") else {}
    return {
        **{f"rows of {name}": table.values() for name, table in tables.items()},
        "kernel": model.get_weights()[0],
        **{name: np.asarray(values) for name, values in logs.items()},
    }


def data_parallel(folder):
    """A copy of the table on every device."""
    assert len(keras.distribution.list_devices()) == DEVICES
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    return {"copies": results(train())}


def mirrored(folder):
    import tensorflow as tf

    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        device, 2 * [tf.config.LogicalDeviceConfiguration()]
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        return {"copies": results(train())}


def elsewhere(road, folder, **environment):
    """Results of `road` in a separate process, by name."""
    subprocess.run(
        [sys.executable, __file__, road, str(folder)],
        env={
            **os.environ,
            "KERAS_BACKEND": keras.backend.backend(),
            "PYTHONPATH": os.pathsep.join(sys.path),
            **environment,
        },
        check=True,
        timeout=120,
    )
    made = {}
    for path in folder.glob("*.npz"):
        with np.load(path) as archive:
            made[path.stem] = dict(archive)
    return made


def assert_equals(made, expected):
    for name, value in expected.items():
        np.testing.assert_allclose(made[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.few(0)
def test_data_parallel(tmp_path):
    if keras.backend.backend() != "jax":
        pytest.skip("keras.distribution is for JAX")
    flag = f"--xla_force_host_platform_device_count={DEVICES}"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {flag}"
    made = elsewhere("data_parallel", tmp_path, XLA_FLAGS=flags)
    assert_equals(made["copies"], results(train()))


@pytest.mark.few(0)
def test_mirrored(tmp_path):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("tf.distribute is for TensorFlow")
    made = elsewhere("mirrored", tmp_path)
    assert_equals(made["copies"], results(train()))


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[2])
    for kind, arrays in globals()[sys.argv[1]](target).items():
        np.savez(target / f"{kind}.npz", **arrays)
