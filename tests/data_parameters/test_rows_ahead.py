"""Rows that lie on the device while some batches train."""

import errno

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters import row_file
from keras_likelihood.data_parameters.row_stage import RowStage

ROWS = 12
IS_JAX = keras.backend.backend() == "jax"
only_jax = pytest.mark.skipif(
    not IS_JAX, reason="only on JAX rows lie on the device between steps"
)


def make(store=None, ahead=None, at_once=1):
    scale = kl.DataParameter(
        ROWS,
        dimension="element",
        momentum=0.5,
        store=store and str(store),
        batches_ahead=ahead,
    )
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(2, kernel_initializer="ones")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.01),
        loss=kl.losses.NormalLoss(scale=scale),
        steps_per_execution=at_once,
    )
    return model, scale


def example_data(count=30):
    """Few rows and many examples: batches that follow share rows."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(count, 3)).astype("float32")
    y = rng.normal(size=(count, 2)).astype("float32")
    return x, kl.indexed(y, index=rng.permutation(count) % ROWS)


def rows(scale):
    return scale.rows.table.numpy()


class Watch(keras.callbacks.Callback):
    """Looks at the table and uses the model in the middle of an epoch."""

    def __init__(self, scale, x):
        super().__init__()
        self.scale, self.x, self.seen = scale, x, []

    def on_train_batch_end(self, batch, logs=None):
        if batch in (3, 7):
            self.model.predict(self.x[:4], verbose=0)
            self.seen.append(rows(self.scale))


def train(model, scale, **options):
    x, y = example_data()
    watch = Watch(scale, x)
    history = model.fit(
        x,
        y,
        batch_size=4,
        shuffle=False,
        verbose=0,
        callbacks=[watch],
        validation_data=example_data(8),
        **options,
    ).history
    return [*watch.seen, rows(scale), history["loss"], history["val_loss"]]


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("ahead, at_once", [(3, 1), (4, 2)])
def test_equals_the_table_in_memory(tmp_path, ahead, at_once):
    if keras.backend.backend() == "torch":
        at_once = 1  # Keras refuses more there.
    model, scale = make(at_once=at_once)
    expected = train(model, scale, epochs=2)
    staged, disk = make(tmp_path / "scale.rows", ahead, at_once)
    same(train(staged, disk, epochs=2), expected)
    # A shorter group, and batches of another size.
    x, y = example_data(3)
    for one in (model, staged):
        one.train_on_batch(x, y)
    same([rows(disk)], [rows(scale)])
    assert np.ptp(rows(disk)[:, 0]) > 0


@only_jax
def test_no_step_calls_the_host(tmp_path, monkeypatch):
    model, scale = make(tmp_path / "scale.rows", 2)
    monkeypatch.setattr(scale.rows.table, "_read", None)
    monkeypatch.setattr(scale.rows.table, "_write", None)
    model.fit(*example_data(), batch_size=4, verbose=0)
    assert np.all(rows(scale)[:, 1] > 0)


@only_jax
def test_data_that_breaks_off(tmp_path):
    x, y = example_data()

    def batches():
        for start in (0, 4, 8):
            yield keras.tree.map_structure(
                lambda a, start=start: a[start : start + 4], (x, y)
            )
        raise OSError("The cable is out")

    model, scale = make(tmp_path / "scale.rows", 2)
    with pytest.raises(OSError, match="cable"):
        model.fit(batches(), shuffle=False, verbose=0)
    found = rows(scale)
    expected, memory = make()
    first = keras.tree.map_structure(lambda a: a[:12], (x, y))
    expected.fit(*first, batch_size=4, shuffle=False, verbose=0)
    same([found], [rows(memory)])
    same(model.get_weights()[:2], expected.get_weights()[:2])


@only_jax
def test_full_disk(tmp_path, monkeypatch):
    model, scale = make(tmp_path / "scale.rows", 1)

    class Full(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 3:
                monkeypatch.setattr(row_file, "write_all", full)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="cannot be written"):
        model.fit(*example_data(), batch_size=4, verbose=0, callbacks=[Full()])
    monkeypatch.undo()
    assert np.isfinite(rows(scale)).all()
    assert np.isfinite(model.get_weights()[0]).all()
    model.fit(*example_data(), batch_size=4, verbose=0)
    assert np.all(rows(scale)[:, 1] > 0)


@only_jax
def test_saved_models_say_nothing_of_the_stage(tmp_path):
    model, scale = make(tmp_path / "scale.rows", 2)

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.save(tmp_path / "model.keras")
            self.model.stop_training = batch == 2

    model.fit(*example_data(), batch_size=4, verbose=0, callbacks=[Stop()])
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = loaded.data_parameters["scale"].open(tmp_path / "scale.rows")
    assert again.batches_ahead == 2
    same([rows(again)], [rows(scale)])
    loaded.fit(*example_data(), batch_size=4, verbose=0)
    plain, _ = make(tmp_path / "other.rows", 0)
    plain.set_weights(model.get_weights())


@only_jax
def test_a_stage_keeps_what_two_groups_share(tmp_path):
    file = row_file.RowFile(tmp_path / "a.rows", num_rows=9, width=2)
    stage = RowStage((9, 2, 1), "stage")
    first, second, third = [np.array([1, 2, 2])], [np.array([2, 5, 99])], []
    prepared = stage.prepare(file, first, 1)
    lines = stage.enter(stage.variable.value, prepared)
    prepared = stage.prepare(file, second, 1)
    stage.variable.assign(lines)
    stage.write(keras.ops.array([1, 2]), keras.ops.ones((2, 2)))
    lines = stage.variable.value
    stage.trained(lines)
    assert np.all(file.read(slice(None)) == 0)
    stage.variable.assign(stage.enter(lines, prepared))
    read = stage.read(keras.ops.array([2, 5, 8]))
    np.testing.assert_array_equal(read, [[1, 1], [0, 0], [0, 0]])
    stage.prepare(file, third, 1)
    np.testing.assert_array_equal(
        np.flatnonzero(file.read(slice(None))[:, 0]), [1, 2]
    )
    file.close()


def test_refuses_a_negative_number():
    with pytest.raises(ValueError, match="`batches_ahead`.*Received: -1"):
        kl.DataParameter(4, batches_ahead=-1)
