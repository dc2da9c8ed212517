"""`keras-likelihood fit` and `predict`, from files to files."""

import csv
import functools
import json
import shlex

import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import cli
from keras_likelihood.backend import files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table with a decimal comma, texts, gaps and a date."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    lines = ["size;town;built;price;dear"]
    for at in range(60):
        size = random.uniform(20, 120)
        town = ["Bonn", "Kiel", ""][at % 3]
        price = 4 * size + 50 * (town == "Bonn")
        price = "" if at == 7 else f"{price:.1f}".replace(".", ",")
        number = f"{size:.2f}".replace(".", ",")
        day = f"20{at % 20 + 10}-05-01"
        lines.append(f"{number};{town};{day};{price};{'ny'[size > 70]}")
    (tmp_path / "my table.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(line, capsys):
    """The JSON output of a command."""
    capsys.readouterr()
    status = cli.main([*shlex.split(line), "--json", "--quiet"])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    return json.loads(printed.out)


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.few(0)
def test_classes_from_table_to_predictions(folder, capsys):
    run("fit 'my table.csv' --members 2 --epochs 6 --output a.keras", capsys)
    text = (folder / "my table.csv").read_text().splitlines()
    text[1] = "9999;Rome;2015-05-01;200;y"
    (folder / "new.csv").write_text("\n".join(text[:4]) + "\n")
    assert run("predict a.keras new.csv", capsys)["unlike_training"] == 1
    first, *others = read("new.predictions.csv")
    assert first["unlike_training"] == '["size", "town"]'
    assert {row["prediction"] for row in others} <= {"n", "y"}
    assert all(row["prediction"] in row["possible"] for row in others)


@pytest.mark.few(0)
def test_other_commands_read_the_table_as_the_model_does(
    folder, capsys, monkeypatch
):
    quick = functools.partial(kl.outliers.PCAScale, steps=20)
    monkeypatch.setattr(kl.outliers, "PCAScale", quick)
    fit = "--members 2 --epochs 6 --output a.keras"
    found = run(f"fit 'my table.csv' --target dear {fit}", capsys)
    assert found["report"] == "a.html" and (folder / "a.html").exists()
    # Another order of the columns, and one more column.
    rows = read_cells("my table.csv")
    moved = [(r[4], r[3], "x", *r[:3]) for r in rows]
    lines = [";".join(row) for row in moved]
    lines[0] = lines[0].replace(";x;", ";note;")
    (folder / "moved.csv").write_text("\n".join(lines) + "\n")
    data = "--data moved.csv --target dear"
    run(f"audit a.keras {data} --issues issues.csv", capsys)
    model = kl.tabular.load("a.keras")
    predicted = model.predict("moved.csv")
    issues = read("issues.csv")
    labels = [
        ["ny"[int(row[f"{which}_label"])] for row in issues]
        for which in ("given", "predicted")
    ]
    assert labels == [[r[4] for r in rows[1:]], predicted.tolist()]
    x = model.encode("moved.csv")
    with pytest.raises(ValueError, match="`x` must be finite.*first at 0"):
        kl.audit(model.model, np.where(np.arange(4), x, np.inf), [0] * 60, None)
    found = run(f"checkup a.keras {data}", capsys)
    verdicts = {part["title"]: part["verdict"] for part in found["parts"]}
    assert verdicts["Doubtful labels"] != "unknown"
    (inputs,) = (p for p in found["parts"] if p["title"] == "Strange inputs")
    used = {
        c["name"].partition(" ")[0]
        for row in inputs["numbers"]["strangest"]
        for c in row["columns"]
    }
    assert used <= {"size", "town", "built", "price"}
    run(f"recalibrate a.keras {data} --method global --output b.keras", capsys)
    found = run("predict b.keras moved.csv", capsys)
    again = read(found["output"])
    assert [row["prediction"] for row in again] == predicted.tolist()
    assert "possible" not in again[0]
    odd = [*lines[:-1], "m" + lines[-1][1:], ""]
    (folder / "odd.csv").write_text("\n".join(odd))
    line = "audit a.keras --data odd.csv --target dear --output o.html"
    assert cli.main(shlex.split(line)) == 1
    assert "classes of the model: n, y. Received: m" in capsys.readouterr().err


def read_cells(path):
    with open(path, newline="") as file:
        return list(csv.reader(file, delimiter=";"))


@pytest.mark.parametrize(
    "line, words",
    [
        ("fit none.csv", "no such file"),
        ("fit 'my table.csv' --target cost", "Received: 'cost' of size, town"),
        ("fit 'my table.csv' --output m.h5", "--output must end in .keras"),
        (
            "fit 'my table.csv' --task regression",
            "The targets must be numbers. Received: 'y'",
        ),
        ("fit one.csv", "the table needs another. Received: 'a' of a"),
        ("fit gone.csv", "`b` is missing in every row"),
        ("fit data.npz", "must be a .csv or a .parquet"),
        ("predict none.keras 'my table.csv'", "no such file"),
    ],
)
def test_errors_are_one_line(folder, capsys, line, words):
    (folder / "one.csv").write_text("a\n" + "1\n2\n" * 9)
    (folder / "gone.csv").write_text("a,b\n" + "1,\n2,\n" * 9)
    np.savez("data.npz", x=np.eye(3))
    assert cli.main(shlex.split(line)) in (1, 2)
    printed = capsys.readouterr().err
    assert words in printed and printed.count("\n") == 1


class Fitted:
    """An estimator that writes without training."""

    notes_, scores_, likelihood_ = (), {}, kl.likelihoods.Normal

    def __init__(self, **options):
        pass

    def fit(self, table, target):
        self.on_round(1, 1)

    def summary(self):
        return "a summary"

    def save(self, path):
        path.write_text("new")

    report = save


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_new_model_never_stands_beside_an_old_page(
    folder, monkeypatch, moves
):
    """The command is killed before, between and after its two writes."""
    move, done = files._move, []

    def killed(*arguments):
        if len(done) == moves:
            raise KeyboardInterrupt
        done.append(move(*arguments))

    monkeypatch.setattr(files, "_move", killed)
    monkeypatch.setattr(kl.tabular, "Regressor", Fitted)
    old = [folder / name for name in ("model.keras", "model.html")]
    for path in old:
        path.write_text("old")
    line = ["fit", "my table.csv", "--target", "price", "--force"]
    assert cli.main(line) == (0 if moves == 2 else 130)
    kept = [path.read_text() if path.exists() else None for path in old]
    assert kept in (["old", "old"], ["old", None], ["new", None], ["new"] * 2)
    assert (kept == ["new", "new"]) == (moves == 2)
