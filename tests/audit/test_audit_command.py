"""`keras-likelihood audit` from the shell."""

import zipfile

import keras
import numpy as np
import pytest

from keras_likelihood import cli
from tests.refusals import refusal


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
    _, worst = printed.split("The most doubtful labels, counted from 0:")
    assert worst.splitlines()[2].split()[0] == "8"
    assert "Next: open" in worst
    page = (files / "page.html").read_text(encoding="utf-8")
    assert "dog" in page
    assert "<b>bird" not in page
    assert "Data audit of train.npz" in page
    assert len((files / "issues.csv").read_text().splitlines()) == 51


def test_what_is_wrong_is_said(files, capsys):
    model, data = files / "model.keras", files / "train.npz"

    def words(*arguments):
        output = ("--output", files / "page.html")
        return refusal(capsys, "audit", model, "--data", *arguments, *output)

    pickled = np.array([{"a": 1}], dtype=object)
    np.savez(files / "bad.npz", x=pickled, y=np.zeros(1))
    assert "pickled arrays, which are refused" in words(files / "bad.npz")
    np.savez(files / "half.npz", x=np.zeros(3))
    assert "needs arrays `x` and `y`" in words(files / "half.npz")
    assert "no such file" in words(files / "none.npz")
    assert "no such file" in words(data, "--labels", files / "none.txt")
    (files / "one.txt").write_text("cat\n")
    assert "must be 3 names" in words(data, "--labels", files / "one.txt")
    assert not (files / "page.html").exists()


def test_damaged_weights_are_refused(files, capsys):
    """Keras itself would read these files without checking the checksum."""
    path = files / "model.keras"
    with zipfile.ZipFile(path) as archive:
        weights = archive.read("model.weights.h5")
    kernel = np.eye(3, dtype="float32").tobytes()
    at = path.read_bytes().index(kernel)
    assert kernel in weights
    content = bytearray(path.read_bytes())
    content[at + 3] ^= 1
    path.write_bytes(content)
    line = refusal(
        *(capsys, "audit", path, "--data", files / "train.npz"),
        *("--output", files / "page.html"),
    )
    assert "checksum of 'model.weights.h5' is wrong" in line
