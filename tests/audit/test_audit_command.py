"""`keras-likelihood audit`, as called from the shell."""

import keras
import numpy as np
import pytest

from keras_likelihood import cli


def call(*arguments):
    return cli.main(["audit", *map(str, arguments)])


@pytest.fixture
def files(tmp_path, rng):
    inputs = keras.Input((3,))
    layer = keras.layers.Dense(
        3, kernel_initializer="identity", activation="softmax"
    )
    keras.Model(inputs, layer(inputs)).save(tmp_path / "model.keras")
    x = 3 * rng.normal(size=(50, 3)).astype("float32")
    y = x.argmax(axis=1)
    y[8] = x[8].argmin()
    np.savez(tmp_path / "train.npz", x=x, y=y)
    (tmp_path / "names.txt").write_text("cat\ndog\n<b>bird</b>\n")
    return tmp_path


def test_page_table_and_summary(files, capsys):
    status = call(
        files / "model.keras",
        *("--data", files / "train.npz"),
        *("--output", files / "page.html"),
        *("--labels", files / "names.txt"),
        *("--issues", files / "issues.csv"),
        *("--top", 10),
    )
    assert status == 0
    printed = capsys.readouterr().out
    assert "NLL of the given label" in printed
    assert str(files / "page.html") in printed
    assert "1 (2.0%)" in printed
    page = (files / "page.html").read_text(encoding="utf-8")
    assert "dog" in page
    assert "<b>bird" not in page
    assert "Data audit of train.npz" in page
    assert len((files / "issues.csv").read_text().splitlines()) == 51


def test_what_is_wrong_is_said(files):
    model, data = files / "model.keras", files / "train.npz"
    pickled = np.array([{"a": 1}], dtype=object)
    np.savez(files / "bad.npz", x=pickled)
    with pytest.raises(SystemExit, match="pickled arrays are refused"):
        call(model, "--data", files / "bad.npz")
    np.savez(files / "half.npz", x=np.zeros(3))
    with pytest.raises(SystemExit, match="needs arrays `x` and `y`"):
        call(model, "--data", files / "half.npz")
    with pytest.raises(SystemExit, match="no such file"):
        call(model, "--data", files / "none.npz")
    with pytest.raises(SystemExit, match="no such file"):
        call(model, "--data", data, "--labels", files / "none.txt")
    (files / "one.txt").write_text("cat\n")
    with pytest.raises(SystemExit, match="must be 3 names"):
        call(model, "--data", data, "--labels", files / "one.txt")
