"""`keras-likelihood recalibrate` from the shell."""

import re

import keras
import numpy as np
import pytest

from keras_likelihood import cli
from keras_likelihood.commands.options import RECALIBRATORS
from tests.refusals import refusal

pytestmark = pytest.mark.usefixtures("step_by_step")


def call(*arguments):
    return cli.main(["recalibrate", *map(str, arguments)])


def arrays(rows=150):
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 4)).astype("float32")
    logits = 4 * x[:, :3]
    y = (logits / 3 + random.gumbel(size=logits.shape)).argmax(axis=1)
    return x, logits, y


def test_model_table_and_file(tmp_path, capsys):
    x, _, y = arrays()
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(5, activation="tanh")(inputs)
    outputs = keras.layers.Dense(3, activation="softmax")(hidden)
    keras.Model(inputs, outputs).save(tmp_path / "model.keras")
    np.savez(tmp_path / "val.npz", x=x, y=y)
    status = call(
        tmp_path / "model.keras",
        *("--data", tmp_path / "val.npz"),
        *("--test", tmp_path / "val.npz"),
        *("--output", tmp_path / "calibrated.keras"),
    )
    assert status == 0
    printed = capsys.readouterr().out
    changing = ("vector", "matrix")
    for short in ("none", *RECALIBRATORS, "auto chose"):
        assert (f"\n{short}" in f"\n{printed}") == (short not in changing)
    assert "150 rows of the test data" in printed
    assert "load it in Python:" in printed
    p = keras.models.load_model(tmp_path / "calibrated.keras").predict(
        x, verbose=0
    )
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(
    "label, town, words",
    [
        ("b", "Ulm", "classes must be those of .*: a, b, c. Received: a, b"),
        ("c", "Kiel", "columns must be those of .* = Ulm. Received: .* = Kiel"),
    ],
)
def test_texts_of_two_files_get_equal_numbers(
    tmp_path, capsys, label, town, words
):
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(3, activation="softmax")(inputs)
    keras.Model(inputs, outputs).save(tmp_path / "model.keras")
    for name, cells in (("val", ("c", "Ulm")), ("test", (label, town))):
        lines = [f"{i},Bonn,{'ab'[i % 2]}" for i in range(20)]
        lines = ["size,town,label", *lines, f"20,{cells[1]},{cells[0]}", ""]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    files = [tmp_path / f for f in ("model.keras", "val.csv", "test.csv")]
    assert call(files[0], "--data", files[1], "--test", files[2]) == 1
    assert re.search(words, capsys.readouterr().err)


def test_scores_are_those_of_rows_that_no_fit_has_seen(tmp_path, capsys):
    """Random labels: a fit to the rows that it is scored on would gain."""
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(4), 40).astype("float32")
    y = (p.cumsum(axis=1) > random.random((40, 1))).argmax(axis=1)
    np.savez(tmp_path / "val.npz", probs=p, y=y)
    options = ("--data", tmp_path / "val.npz", "--change-classes")
    assert call(*options, "--output", tmp_path / "out.npz") == 0
    printed = capsys.readouterr().out
    rows = dict(line.split(maxsplit=1) for line in printed.splitlines() if line)
    nll = {name: float(rows[name].split()[0]) for name in ("none", "matrix")}
    assert nll["matrix"] > nll["none"]
    assert "40 rows, each by a fit to the other 4 of 5 folds" in printed
    found = np.load(tmp_path / "out.npz")["probabilities"]
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert call(*options[:2], "--method", "matrix") == 2
    assert "--change-classes allows" in capsys.readouterr().err


def test_outputs_of_a_regressor_are_recalibrated(tmp_path, capsys):
    x, *_ = arrays(60)
    data = {"prediction": x[:, 0], "scale": np.ones(60), "y": x[:, 0] + x[:, 1]}
    np.savez(tmp_path / "val.npz", **(data | {"scale": 9 * data["scale"]}))
    options = ("--data", tmp_path / "val.npz", "--method", "global")
    assert call(*options, "--output", tmp_path / "out.npz") == 0
    assert "The NLL fell" in capsys.readouterr().out
    scale = np.load(tmp_path / "out.npz")["scale"]
    assert scale.shape == (60,) and (scale < 2).all()


def test_outputs_have_the_name_they_were_given(tmp_path, capsys):
    _, logits, y = arrays()
    data = tmp_path / "val.npz"
    np.savez(data, logits=logits, y=y)
    before = sorted(tmp_path.iterdir())

    def words(output, *more):
        return refusal(
            *(capsys, "recalibrate", "--data", data, *more),
            *("--output", tmp_path / output),
        )

    assert "must end in .npz" in words("out")
    assert "must end in .npz" in words("out.keras")
    assert "must not be the file of --data" in words("val.npz", "--force")
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "out.npz").write_text("old")
    assert "--output: the file exists" in words("out.npz")
    assert (tmp_path / "out.npz").read_text() == "old"


def test_bad_data_are_refused_in_one_line(tmp_path, capsys):
    _, logits, y = arrays()
    files = {
        "short": {"logits": logits, "y": y[:-1]},
        "pickled": {"logits": np.array([{"a": 1}], object), "y": np.zeros(1)},
        "other": {"x": np.zeros(3)},
        "half": {"logits": logits, "y": np.where(y == y[0], 1.7, y)},
        "val": {"logits": logits, "y": y},
        "test": {"logits": logits[:, :2], "y": y % 2},
    }
    for name, values in files.items():
        np.savez(tmp_path / f"{name}.npz", **values)
    (tmp_path / "val.csv").write_text("1,2,0\n2,1,1\n3,4,1\n")
    for name, words in {
        "short.npz": "Labels for logits",
        "pickled.npz": "pickled arrays, which are refused",
        "none.npz": "no such file",
        "other.npz": "needs arrays `logits` and `y`",
        "half.npz": "whole numbers from 0 to 2. Received: [1.7]",
        "val.csv": "must be an .npz with `logits`",
    }.items():
        line = refusal(capsys, "recalibrate", "--data", tmp_path / name)
        assert words in line
    files = [tmp_path / f"{name}.npz" for name in ("val", "test")]
    line = refusal(
        capsys, "recalibrate", "--data", files[0], "--test", files[1]
    )
    assert "'logits': (3,)}. Received: {'logits': (2,)}" in line
