"""Several devices train to the numbers of one."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_likelihood as kl

ROWS = 32


def train():
    """A few steps on fixed data, with rows repeated within a batch."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3)).astype("float32")
    y = rng.normal(size=(64, 2)).astype("float32")
    scale = kl.DataParameter(ROWS, dimension="element", momentum=0.5)
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(2, kernel_initializer="ones")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.1), loss=kl.losses.NormalLoss(scale=scale)
    )
    model.fit(
        x,
        kl.indexed(y, index=rng.integers(0, ROWS, 64)),
        batch_size=16,
        epochs=2,
        shuffle=False,
        callbacks=[scale],
        verbose=0,
    )
    return scale.values(), model.layers[-1].get_weights()[0]


def data_parallel():
    import jax

    assert len(jax.devices()) == 8
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    return train()


def mirrored():
    import tensorflow as tf

    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        device, 2 * [tf.config.LogicalDeviceConfiguration()]
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        return train()


def elsewhere(road, tmp_path, **environment):
    path = tmp_path / "results.npz"
    subprocess.run(
        [sys.executable, __file__, road, str(path)],
        env={
            **os.environ,
            "KERAS_BACKEND": keras.backend.backend(),
            "PYTHONPATH": os.pathsep.join(sys.path),
            **environment,
        },
        check=True,
    )
    with np.load(path) as results:
        return results["values"], results["kernel"]


def assert_equals_one_device(results):
    values, kernel = train()
    np.testing.assert_allclose(results[0], values, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results[1], kernel, rtol=1e-5, atol=1e-6)


def test_data_parallel(tmp_path):
    if keras.backend.backend() != "jax":
        pytest.skip("keras.distribution is for JAX")
    flags = "--xla_force_host_platform_device_count=8"
    assert_equals_one_device(
        elsewhere("data_parallel", tmp_path, XLA_FLAGS=flags)
    )


def test_mirrored(tmp_path):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("tf.distribute is for TensorFlow")
    assert_equals_one_device(elsewhere("mirrored", tmp_path))


if __name__ == "__main__":
    values, kernel = globals()[sys.argv[1]]()
    np.savez(sys.argv[2], values=values, kernel=kernel)
