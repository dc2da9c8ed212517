"""Data parameters are saved, loaded and resumed to the same numbers."""

import struct
import zlib

import keras
import numpy as np
import pytest

import keras_likelihood as kl

JIT = keras.backend.backend() == "jax"


@pytest.fixture
def data(rng):
    x = rng.normal(size=(16, 2)).astype("float32")
    return x, rng.normal(size=(16, 2)).astype("float32")


def make(**options):
    scale = kl.DataParameter(16, **{"momentum": 0.5, **options})
    inputs = keras.Input((2,))
    outputs = keras.layers.Dense(2, kernel_initializer="ones")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(0.05),
        loss=kl.losses.NormalLoss(scale=scale),
        jit_compile=JIT,
    )
    return model, scale


def fit(model, data, callbacks, **options):
    x, y = data
    options = {"batch_size": 4, "shuffle": False, "verbose": 0, **options}
    model.fit(x, kl.indexed(y), callbacks=callbacks, **options)


@pytest.mark.parametrize("dimension", ["scalar", "element"])
def test_saved_model_goes_on_where_it_stopped(data, dimension, tmp_path):
    model, scale = make(dimension=dimension)
    fit(model, data, [scale], epochs=2)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = loaded.data_parameters["scale"]
    np.testing.assert_array_equal(again.values(), scale.values())
    for m, s in ((model, scale), (loaded, again)):
        fit(m, data, [s])
    np.testing.assert_allclose(
        again.rows.table.numpy(), scale.rows.table.numpy(), rtol=1e-6
    )
    np.testing.assert_allclose(
        loaded.get_weights()[0], model.get_weights()[0], rtol=1e-6
    )


def test_config_keeps_every_argument(tmp_path):
    scale = kl.DataParameter(
        5,
        learning_rate=0.2,
        rho=0.8,
        epsilon=1e-9,
        momentum=0.3,
        weight_decay=0.1,
        clipnorm=2.0,
        dimension="channel",
        initial=0.7,
        constraint=kl.constraints.Softplus(0.1),
        fallback="mean",
        store=str(tmp_path / "scale.rows"),
        sync=True,
        batches_ahead=3,
        shard="batch",
        tensorboard=str(tmp_path / "logs"),
    )
    config = scale.get_config()
    default = kl.DataParameter(4).get_config()
    # A table on disk has no prior, see `test_prior_is_saved`.
    kept = {name for name in default if config[name] == default[name]}
    assert kept == {"prior_scale", "row_sizes"}
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(scale)
    )
    # Where to write is for the person who loads to say.
    assert again.get_config() == {**config, "tensorboard": None}
    assert not again.is_open
    assert list(tmp_path.iterdir()) == []
    assert again.constraint == scale.constraint


def test_backup_resumes_to_the_numbers_of_an_uninterrupted_run(data, tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise KeyboardInterrupt

    def backup():
        return keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))

    whole, expected = make()
    fit(whole, data, [expected], epochs=4)
    first, scale = make()
    with pytest.raises(KeyboardInterrupt):
        fit(first, data, [scale, backup(), Stop()], epochs=4)
    second, scale = make()
    fit(second, data, [scale, backup()], epochs=4)
    np.testing.assert_array_equal(
        scale.rows.table.numpy(), expected.rows.table.numpy()
    )
    np.testing.assert_array_equal(
        second.get_weights()[0], whole.get_weights()[0]
    )


def test_file_of_its_own(data, tmp_path):
    model, scale = make()
    fit(model, data, [scale])
    scale.save(tmp_path / "scale.npz")
    _, other = make(fallback="mean")
    other.load(tmp_path / "scale.npz")
    np.testing.assert_array_equal(
        other.rows.table.numpy(), scale.rows.table.numpy()
    )
    assert float(np.mean(other.rows.mean)) == pytest.approx(
        float(scale.values().mean()), rel=1e-6
    )


def test_refuses_the_file_of_another_table(data, tmp_path):
    _, scale = make()
    scale.save(tmp_path / "scale.npz")
    _, other = make(dimension="element")
    with pytest.raises(ValueError, match="another table"):
        other.load(tmp_path / "scale.npz")


def test_tables_of_the_first_format_load(data, tmp_path):
    _, scale = make()
    rows = np.arange(48, dtype="<f4").reshape(16, 3)
    np.save(tmp_path / "old.npy", rows)
    index, newer = np.array([7, 2], "<i8"), -np.ones((2, 3), "<f4")
    payload = index.tobytes() + newer.tobytes()
    start = struct.pack("<8sqqI", b"KLROWS01", 2, 3, zlib.crc32(payload))
    (tmp_path / "old.npy.journal").write_bytes(start + payload)
    scale.load(tmp_path / "old.npy")
    rows[index] = newer
    np.testing.assert_array_equal(scale.rows.table.numpy()[..., 0], rows)
    saved = np.load(tmp_path / "old.npy")
    np.testing.assert_array_equal(saved[7], [21, 22, 23])
    with pytest.raises(ValueError, match="another table"):
        make(dimension="element")[1].load(tmp_path / "old.npy")


def test_a_table_beyond_memory_is_refused():
    with pytest.raises(ValueError, match=r"store=path.*num_examples.*GB"):
        make_of(10**12)


def make_of(rows):
    scale = kl.DataParameter(rows)
    kl.losses.NormalLoss(scale=scale).build((None, 1))


def test_counters_of_the_first_format_load(data):
    _, scale = make()
    scale.rows.refusals.counts.assign(np.array(3, "int32"))
    scale.check()


def test_recompiling_keeps_the_table(data):
    model, scale = make()
    fit(model, data, [scale])
    before = scale.values()
    model.compile(
        "sgd", loss=kl.losses.NormalLoss(scale=scale), jit_compile=JIT
    )
    np.testing.assert_array_equal(scale.values(), before)
    fit(model, data, [scale])
    assert np.all(scale.values() != before)


def test_histogram(data, tmp_path):
    pytest.importorskip("tensorflow")
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing import event_accumulator

    model, scale = make(tensorboard=str(tmp_path))
    fit(model, data, [scale], epochs=2)
    events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert "data_scale" in events.Tags()["tensors"]
    assert [e.step for e in events.Tensors("data_scale")] == [0, 1]
