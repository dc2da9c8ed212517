"""Tables gain rows for new examples and lose rows."""

import errno
import os

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from tests.data_parameters.test_file_table import (
    ROWS,
    example_data,
    fit,
    make,
)


class Append(keras.callbacks.Callback):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def on_train_batch_begin(self, batch, logs=None):
        self.scale.append(1)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_growing_data(tmp_path, kind):
    model, scale = make(tmp_path / "scale.npy" if kind == "file" else None)
    fit(model)
    values, state = scale.values(), scale.state()
    x, y = example_data()
    assert scale.append(2) is scale
    assert scale.num_examples == ROWS + 2
    np.testing.assert_allclose(scale.values([-1, -2]), 1.0, rtol=1e-6)
    new = kl.indexed(y[:2], index=np.array([ROWS, ROWS + 1]))
    model.fit(x[:2], new, verbose=0)
    assert (scale.values()[-2:] != 1.0).all()
    np.testing.assert_array_equal(scale.state(slice(ROWS)), state)
    model.evaluate(x[:2], new, verbose=0)
    order = np.arange(ROWS)[::-1]
    scale.keep(order)
    np.testing.assert_allclose(scale.values(), values[::-1], rtol=1e-6)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = loaded.data_parameters["scale"]
    np.testing.assert_array_equal(again.state(), scale.state())
    with pytest.raises(ValueError, match="at least one row"):
        scale.keep([])
    with pytest.raises(ValueError, match="while `fit` runs"):
        fit(model, Append(scale))
    # The rows are replaced in a file with the same name.
    fit(model)


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_before_the_first_training(tmp_path, kind):
    model, scale = make(tmp_path / "scale.npy" if kind == "file" else None)
    scale.keep(slice(30)).append(5).append(5)
    np.testing.assert_allclose(scale.values(), 1.0, rtol=1e-6)
    fit(model)
    assert scale.values().shape == (ROWS, 2)
    assert (scale.values() != 1.0).all()


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    model, scale = make(tmp_path / "scale.npy")
    fit(model)
    state, names = scale.state(), set(os.listdir(tmp_path))

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left.*scale.npy"):
        scale.append(5)
    monkeypatch.undo()
    assert set(os.listdir(tmp_path)) == names
    np.testing.assert_array_equal(scale.state(), state)
    assert model.get_weights()[-1].shape == (ROWS, 2, 2)
    fit(model)


@pytest.mark.few(0)
def test_a_loop_of_your_own_may_hold_the_file(tmp_path):
    model, scale = make(tmp_path / "scale.npy")
    x, y = example_data()
    model.train_on_batch(x, kl.indexed(y))
    state = scale.state()
    scale.append(1)
    np.testing.assert_array_equal(scale.state(slice(ROWS)), state)
    model.train_on_batch(x, kl.indexed(y))
    scale.close()


@pytest.mark.few(0)
def test_a_file_of_another_size_is_replaced_by_a_loaded_table(tmp_path):
    path = tmp_path / "scale.npy"
    fit(make(path)[0])
    model, scale = make()
    fit(model)
    scale.append(2).to_file(path)
    np.testing.assert_array_equal(np.load(path), scale.state())
    before = path.read_bytes()
    with pytest.raises(ValueError, match="does not match this table"):
        make(initial=3.0)[1].to_file(path)
    assert path.read_bytes() == before


def test_weights_of_another_number_of_examples_are_refused(tmp_path):
    """Keras tries twice, and must not treat the second try as a success."""
    model, scale = make()
    model.save_weights(tmp_path / "model.weights.h5")
    for kind in (None, tmp_path / "scale.npy"):
        other, rows = make(kind)
        rows.append(2)
        for _ in range(2):
            with pytest.raises(ValueError, match="and then call `append`"):
                other.load_weights(tmp_path / "model.weights.h5")
        rows.keep(slice(ROWS))
        other.load_weights(tmp_path / "model.weights.h5")
