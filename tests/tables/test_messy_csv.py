"""The journey of a messy .csv from `fit` to `predict`."""

import csv
import json

import numpy as np
import pytest

from keras_likelihood import cli

HEAD = "größe;ort;gebaut;ort;=code;quelle;preis"


def lines(count):
    """Semicolons, decimal commas, umlauts, dates, gaps and wrong cells."""
    random = np.random.default_rng(0)
    for at in range(count):
        size = random.uniform(20, 120)
        town = ["Köln", " Bonn ", "Kiel"][at % 3]
        price = 4 * size + 50 * (at % 3) + random.normal()
        cells = [f"{size:.2f}", town, f"{at % 28 + 1}.{at % 12 + 1}.2020"]
        cells += [
            ["alt", "neu"][at % 2],
            "ABC"[at % 3],
            "Amt",
            f"{price:.1f}",
        ]
        if at == 5:
            cells[0] = "90.5 kg"
        if at == 6:
            cells[0], cells[2] = "?", ""
        yield ";".join(cells)


def write(path, rows):
    """Writes Latin-1 with decimal commas in the first and last column."""
    text = []
    for row in rows:
        cells = row.split(";")
        for at in (0, -1):
            cells[at] = cells[at].replace(".", ",")
        text.append(";".join(cells))
    path.write_bytes("\n".join([HEAD, *text, ""]).encode("latin-1"))


@pytest.mark.few(0)
@pytest.mark.filterwarnings("always:.*column names must be unique")
def test_a_messy_csv_from_fit_to_predict(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = list(lines(72))
    write(tmp_path / "alt.csv", rows)
    fit = "fit alt.csv --members 2 --epochs 4 --likelihood normal".split()
    assert cli.main(fit) == 0
    printed = capsys.readouterr()
    for words in (
        "The target is treated as regression",
        "Cells read as missing: ",
        "? (1)",
        "Ignored: quelle (constant).",
        "Dates: gebaut (day.month.year).",
        "Cells that are not numbers count as missing",
        "1 in `größe`, the first in row 5: '90,5 kg'",
        "Likelihood: normal",
    ):
        assert words in printed.out, printed.out
    assert "boosted trees" in (tmp_path / "model.html").read_text("utf-8")
    assert "Renamed: `ort` to `ort.1`" in printed.err
    assert "calibrating" in printed.err
    new = [row.split(";") for row in rows[:8]]
    new[0][1] = "München"
    new[1][0] = "1.090,5"
    new[2][2] = "im Herbst"
    new[3][4] = "=1+1"
    new[4][1] = "Bonn"
    write(tmp_path / "neu.csv", [";".join(row) for row in new])
    assert cli.main(["predict", "model.keras", "neu.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["unlike_training"] == 5
    with open(found["output"], newline="") as file:
        table = list(csv.DictReader(file))
    lists = [json.loads(row["unlike_training"] or "[]") for row in table]
    assert lists == [
        ["ort"],
        ["größe"],
        ["gebaut"],
        ["=code"],
        [],
        ["größe"],
        [],
        [],
    ]
    for row in table:
        values = [float(row[name]) for name in ("lower", "prediction", "upper")]
        assert values == sorted(values)
        assert not row["unlike_training"].startswith(("=", "+", "-", "@"))
