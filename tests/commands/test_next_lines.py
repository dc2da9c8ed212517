"""Every command ends with a next step, and that step works."""

import functools
import json
import re
import shlex

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import cli
from keras_likelihood.auditing.decisions import mark_of
from keras_likelihood.commands.tasks import ClassifierTask, RegressorTask

pytestmark = pytest.mark.usefixtures("step_by_step")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Creates files with spaces in their names, in the working folder."""
    monkeypatch.chdir(tmp_path)
    quick = functools.partial(kl.outliers.PCAScale, steps=1, batch_size=8)
    quick.load = kl.outliers.PCAScale.load
    monkeypatch.setattr(kl.outliers, "PCAScale", quick)
    few = {"global": "GlobalScaling"}
    for task in (ClassifierTask, RegressorTask):
        monkeypatch.setattr(task, "METHODS", few)
    simple = kl.recalibration.GlobalScaling
    monkeypatch.setattr(kl.recalibration, "AutoScaling", lambda **_: simple())
    monkeypatch.setattr(ClassifierTask, "chosen", lambda *_: "GlobalScaling")
    monkeypatch.setattr(
        ClassifierTask, "methods", lambda self: {**few, "auto": "AutoScaling"}
    )
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 3)).astype("float32")
    y = (2 * x + random.gumbel(size=x.shape)).argmax(axis=1)
    inputs = keras.Input((3,))
    layer = keras.layers.Dense(
        3,
        kernel_initializer=keras.initializers.Identity(20.0),
        activation="softmax",
    )
    keras.Model(inputs, layer(inputs)).save("my model.keras")
    # Its last layer reveals neither logits nor probabilities.
    spread = keras.layers.Dense(3, kernel_initializer="identity")
    rescaled = keras.layers.Rescaling(1.0)(
        keras.layers.Softmax()(spread(inputs))
    )
    keras.Model(inputs, rescaled).save("plain model.keras")
    for name in ("my data.npz", "test.npz", "data.npz"):
        np.savez(name, x=x, y=y)
    np.savez("table 1.npz", X=x)
    rows = [f"{a},{b},{'rs'[c % 2]}" for (a, b, _), c in zip(x, y, strict=True)]
    (tmp_path / "my table.csv").write_text(
        "a,b,kind\n" + "\n".join(rows) + "\n"
    )
    return tmp_path


def run_line(line, capsys):
    """Runs a command line; returns the suggested next one, or `None`."""
    name, *arguments = shlex.split(line)
    assert name == "keras-likelihood"
    capsys.readouterr()
    status = cli.main([*arguments, "--json", "--quiet"])
    printed = capsys.readouterr()
    assert status == 0, (line, printed.err)
    return json.loads(printed.out)["next_command"]


def decide(data, target=None):
    """The file that the page would export, with one wrong label."""
    if data.endswith("csv"):
        with open(data) as file:
            y = np.array([row.strip()[-1] == "s" for row in file][1:]) * 1
        classes = 2
    else:
        y, classes = np.load(data)["y"], 3
    row = [0, "wrong", (y[0] + 1) % classes, y[0], mark_of(y, classes)]
    with open("decisions.csv", "w") as file:
        file.write("index,decision,label,given,audit\n")
        file.write(",".join(map(str, row)) + "\n")


STARTS = {
    "checkup": "checkup 'my model.keras' --data 'my data.npz'",
    "checkup of probabilities": "checkup 'plain model.keras' --data "
    "'my data.npz' --probabilities --test test.npz",
    "recalibrate": "recalibrate 'my model.keras' --data 'my data.npz'",
    "recalibrate to a file": "recalibrate 'plain model.keras' --data "
    "'my data.npz' --test test.npz --output 'a b.keras' --probabilities",
    "audit": "audit --data 'my data.npz' --epochs 1",
    "audit with a model": "audit 'plain model.keras' --data 'my data.npz' "
    "--probabilities",
    "audit of a table": "audit --data 'my table.csv' --epochs 1",
    "detect": "detect 'table 1.npz'",
    "detect a table": "detect 'my table.csv'",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("start", STARTS)
def test_next_lines_work_until_the_end(folder, capsys, start):
    line = f"keras-likelihood {STARTS[start]}"
    walked = []
    while line and line.startswith("keras-likelihood"):
        if "--apply" in line:
            decide(shlex.split(line)[shlex.split(line).index("--data") + 1])
        elif len(walked) > 3:
            break
        walked.append(line)
        line = run_line(line, capsys)
    assert walked[1:] or line
    if line and not line.startswith("keras-likelihood"):
        scope = {"kl": kl, "keras": keras, "numpy": np}
        scope["x"] = np.load("data.npz")["x"]
        if "my table" in walked[0]:
            scope["x"] = np.zeros((5, 4))
        exec(line, scope)


def test_a_calibrated_model_is_read_by_all_commands(folder, capsys):
    data, new = "--data 'my data.npz'", "--output new.keras"
    run_line(
        f"keras-likelihood recalibrate 'my model.keras' {data} {new}", capsys
    )
    for line in ("checkup", "audit", "recalibrate"):
        line = f"keras-likelihood {line} new.keras {data} --output"
        suffix = "keras" if "recalibrate" in line else "html"
        run_line(f"{line} again.{suffix} --force", capsys)
    model = keras.models.load_model("again.keras")
    p = model.predict(np.load("my data.npz")["x"], verbose=0)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)


def test_decisions_correct_the_file(folder, capsys):
    decide("my table.csv")
    arguments = ["audit", "--data", "my table.csv", "--apply", "decisions.csv"]
    assert cli.main([*arguments, "--output", "new.csv"]) == 0
    assert re.search(r"corrected labels +1\n", capsys.readouterr().out)
    old, new = (
        (folder / name).read_text().splitlines()
        for name in ("my table.csv", "new.csv")
    )
    changed = [a for a, b in zip(old, new, strict=True) if a != b]
    assert changed == [old[1]] and old[1][:-1] == new[1][:-1]
    decide("my data.npz")
    arguments = ["audit", "--data", "my data.npz", "--apply", "decisions.csv"]
    assert cli.main([*arguments, "--output", "new.npz"]) == 0
    y = np.load("my data.npz")["y"]
    assert (np.load("new.npz")["y"] != y).sum() == 1


def test_one_set_of_words_in_the_terminal_and_on_the_page(folder, capsys):
    arguments = ["checkup", "my model.keras", "--data", "my data.npz"]
    assert cli.main(arguments) == 0
    printed = capsys.readouterr().out
    page = (folder / "checkup.html").read_text()
    verdicts = re.findall(r'class="badge \w+">([\w ]+)<', page)
    assert len(verdicts) == 8
    for verdict in verdicts:
        assert f"  {verdict}  " in printed
