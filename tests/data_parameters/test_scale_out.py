"""Training on several devices gives the same numbers as on one."""

import math
import os
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters import MemoryTable, SparseRMSProp

# Not a multiple of the number of devices.
ROWS = 1001
DEVICES = 8
BATCH = 16
TWO_PARAMETERS = {
    "parameters": ("df", "scale"),
    "loss": kl.losses.StudentTLoss,
}


def train(shard=None, parameters=("scale",), loss=kl.losses.RobustRhoLoss):
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
            table=MemoryTable(shard=shard),
        )
        for name in parameters
    }
    inputs = keras.Input((3,))
    dense = keras.layers.Dense(
        2, kernel_initializer="ones", kernel_regularizer="l2"
    )
    model = kl.LikelihoodModel(inputs, dense(inputs))
    model.compile(keras.optimizers.SGD(0.1), loss=loss(**tables))
    model.fit(
        x,
        kl.indexed(y, index=index),
        batch_size=BATCH,
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


def rows_a_device(model):
    table = model.data_parameters["scale"].variables[0].value
    return table.addressable_shards[0].data.shape[0]


def data_parallel(folder):
    """A copy of the table on every device, then shards, also by a map."""
    devices = keras.distribution.list_devices()
    assert len(devices) == DEVICES
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    made = {"copies": results(train()) | {"rows": ROWS}}
    model = train(shard="batch")
    made["shares"] = results(model) | {"rows": rows_a_device(model)}
    model.save(folder / "model.keras")
    mesh = keras.distribution.DeviceMesh((2, 4), ["batch", "model"], devices)
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*data_scale"] = ("model", None)
    distribution = keras.distribution.ModelParallel(layout_map=layout)
    with distribution.scope():
        model = train()
        made["map"] = results(model) | {"rows": rows_a_device(model)}
        # A file can be loaded on any number of devices.
        model = keras.saving.load_model(folder / "model.keras")
        with pytest.raises(ValueError, match="axis of the device mesh"):
            train(shard="rows")
    made["loaded"] = results(model)
    return made


def mirrored(folder):
    import tensorflow as tf

    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        device, 2 * [tf.config.LogicalDeviceConfiguration()]
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        with pytest.raises(ValueError, match="every replica has a copy"):
            train(shard="batch")
        return {
            "copies": results(train()),
            "two": results(train(**TWO_PARAMETERS)),
        }


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


def test_data_parallel(tmp_path):
    if keras.backend.backend() != "jax":
        pytest.skip("keras.distribution is for JAX")
    dump = tmp_path / "programs"
    flags = (
        os.environ.get("XLA_FLAGS", ""),
        f"--xla_force_host_platform_device_count={DEVICES}",
        f"--xla_dump_to={dump}",
        "--xla_dump_hlo_module_re=.*train_step.*",
    )
    made = elsewhere(
        "data_parallel",
        tmp_path,
        XLA_FLAGS=" ".join(flags),
        # A cached program is not compiled and not dumped.
        JAX_ENABLE_COMPILATION_CACHE="false",
    )
    model = train()
    expected = results(model)
    for kind in ("copies", "shares", "map"):
        assert_equals(made[kind], expected)
    assert made["shares"]["rows"] == math.ceil(ROWS / DEVICES)
    assert made["map"]["rows"] == math.ceil(ROWS / 4)
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_equals(made["shares"], results(loaded))
    assert_equals(made["loaded"], results(loaded))
    sizes = [exchanged(path) for path in programs(dump)]
    assert len(sizes) == 3
    # A row has 3 slots of 2 values.
    for found in sizes:
        assert 0 < found <= BATCH * 6


def programs(folder):
    return pathlib.Path(folder).glob("*after_optimizations.txt")


def exchanged(path):
    """The most numbers that devices exchange at once."""
    collectives = "all-gather|all-reduce|all-to-all|collective-permute"
    sent = re.findall(
        rf"= (.*) (?:{collectives}|reduce-scatter)(?:-start)?\(",
        path.read_text(),
    )
    shapes = re.findall(r"\[([\d,]+)\]", " ".join(sent))
    return max(math.prod(map(int, s.split(","))) for s in shapes)


@pytest.mark.few(0)
def test_mirrored(tmp_path):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("tf.distribute is for TensorFlow")
    made = elsewhere("mirrored", tmp_path)
    assert_equals(made["copies"], results(train()))
    assert_equals(made["two"], results(train(**TWO_PARAMETERS)))


def test_rows_are_found_by_number(rng):
    scale = kl.DataParameter(5).bind(kl.likelihoods.Normal, "scale")
    scale.build((None, 1))
    state = rng.normal(size=(5, 2, 1)).astype("float32")
    scale.table.assign(np.abs(state))
    every = scale.values()
    np.testing.assert_array_equal(scale.values([4, 0, -1]), every[[4, 0, -1]])
    np.testing.assert_array_equal(scale.values(every > 0.5), every[every > 0.5])
    for outside in ([5], [-6]):
        with pytest.raises(IndexError, match="`index` must be .* from 0 to 4"):
            scale.values(outside)


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[2])
    for kind, arrays in globals()[sys.argv[1]](target).items():
        np.savez(target / f"{kind}.npz", **arrays)
