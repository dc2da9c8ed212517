"""`keras-likelihood recalibrate` from the shell."""

import re

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import cli
from keras_likelihood.commands import recalibrate as command
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
    for short in ("none", *command.METHODS, "auto chose"):
        assert (f"\n{short}" in f"\n{printed}") == (short not in changing)
    assert "150 rows of the test data" in printed
    p = keras.models.load_model(tmp_path / "calibrated.keras").predict(
        x, verbose=0
    )
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)


def test_ordered_classes_are_classes(tmp_path, capsys):
    x, _, y = arrays(60)
    inputs = keras.Input((4,))
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", loss=kl.losses.OrdinalLoss(3))
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "val.npz", x=x, y=y)
    data = ("--data", tmp_path / "val.npz", "--method", "global")
    assert call(tmp_path / "model.keras", *data) == 0
    assert "accuracy" in capsys.readouterr().out


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


def test_one_hot_labels_and_one_method(tmp_path, capsys):
    _, logits, y = arrays()
    for name, labels in {"plain": y, "one_hot": np.eye(3)[y]}.items():
        np.savez(tmp_path / f"{name}.npz", logits=logits, y=labels)
    printed = []
    for name in ("plain", "one_hot"):
        call("--data", tmp_path / f"{name}.npz", "--method", "global")
        lines = capsys.readouterr().out.splitlines()
        *lines, next_step = lines
        assert name in next_step
        printed.append([line.split()[:4] for line in lines])
        assert "Nothing was written. Use --output to write the result." in lines
    assert printed[0] == printed[1]
    assert [line[0] for line in printed[0][:3]] == ["method", "none", "global"]
    assert not any(line[0] == "auto" for line in printed[0])


def test_labels_of_sequences_stay_class_numbers(tmp_path, capsys):
    _, logits, y = arrays()
    np.savez(tmp_path / "rows.npz", logits=logits, y=y)
    np.savez(
        tmp_path / "sequences.npz",
        logits=logits.reshape(50, 3, 3),
        y=y.reshape(50, 3),
    )
    printed = []
    for name in ("rows", "sequences"):
        path = tmp_path / f"{name}.npz"
        call("--data", path, "--test", path, "--method", "global")
        *lines, next_step = capsys.readouterr().out.splitlines()
        assert name in next_step
        printed.append([line.split()[:4] for line in lines[:-1]])
    assert printed[0][:3] == printed[1][:3]


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


@pytest.mark.few(0)
def test_plain_vectors_are_logits_of_yes(tmp_path, capsys):
    logits = np.random.default_rng(0).normal(size=60)
    y = (logits > 0).astype(int)
    y[:6] = 1 - y[:6]
    np.savez(tmp_path / "vector.npz", logits=logits, y=y)
    np.savez(tmp_path / "column.npz", logits=logits[:, None], y=y)
    printed, written = [], []
    for name in ("vector", "column"):
        output = tmp_path / f"{name}_out.npz"
        call(
            *("--data", tmp_path / f"{name}.npz", "--method", "global"),
            *("--output", output),
        )
        lines = capsys.readouterr().out.splitlines()[1:3]
        printed.append([line.split()[:4] for line in lines])
        written.append(np.load(output)["probabilities"])
    assert printed[0] == printed[1]
    assert printed[0][0][3] == "0.9000"
    np.testing.assert_array_equal(written[0], written[1][:, 0])


def test_errors_of_the_user_are_one_line(tmp_path, capsys):
    _, logits, y = arrays()
    np.savez(tmp_path / "val.npz", logits=logits, y=y[:-1])
    line = refusal(capsys, "recalibrate", "--data", tmp_path / "val.npz")
    assert line.startswith("recalibrate: Labels for logits")


def test_pickles_and_wrong_files_are_refused(tmp_path, capsys):
    def words(name):
        return refusal(capsys, "recalibrate", "--data", tmp_path / name)

    pickled = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "bad.npz", logits=pickled, y=np.zeros(1))
    assert "pickled arrays, which are refused" in words("bad.npz")
    assert "no such file" in words("none.npz")
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    assert "needs arrays `logits` and `y`" in words("x.npz")


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


def test_data_to_judge_on_have_the_same_classes(tmp_path, capsys):
    _, logits, y = arrays()
    np.savez(tmp_path / "val.npz", logits=logits, y=y)
    np.savez(tmp_path / "test.npz", logits=logits[:, :2], y=y % 2)
    line = refusal(
        *(capsys, "recalibrate", "--data", tmp_path / "val.npz"),
        *("--test", tmp_path / "test.npz"),
    )
    assert "'logits': (3,)}. Received: {'logits': (2,)}" in line
