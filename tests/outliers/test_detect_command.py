"""`keras-likelihood detect` from the shell."""

import csv
import functools

import numpy as np
import pytest

from keras_likelihood import outliers
from keras_likelihood.cli import main
from keras_likelihood.commands.detect import read_table
from keras_likelihood.outliers import PCAScale
from tests.refusals import refusal


def table(rows=80):
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, 3))
    x[7] = [30.0, -30.0, 30.0]
    return x


def load_table(path):
    return read_table(path)[:2]


def write_csv(path, x, header=None):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow(header)
        writer.writerows(x)
    return str(path)


def test_csv_to_scores_and_flags(tmp_path, capsys, monkeypatch):
    quick = functools.partial(PCAScale, steps=200)
    monkeypatch.setattr(outliers, "PCAScale", quick)
    data = write_csv(tmp_path / "data.csv", table(), ["a", "b", "c"])
    saved = tmp_path / "detector.zip"
    arguments = ["detect", data, "--contamination", "0.05"]
    assert main([*arguments, "--save", str(saved)]) == 0
    with open(tmp_path / "data.scores.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == list(range(80))
    assert sum(int(row["outlier"]) for row in rows) == 4
    assert rows[7]["outlier"] == "1"
    printed = capsys.readouterr().out
    assert (
        "4 of 80 rows are flagged, the share set by --contamination" in printed
    )
    assert "above the threshold" in printed
    strangest = next(v for v in printed.splitlines() if v.split()[:1] == ["7"])
    assert all(name in strangest for name in ("a: 30", "b: -30", "c: 30"))
    assert "PCAScale.load" in printed.splitlines()[-1]
    scores = PCAScale.load(saved).decision_function(table())
    found = [float(row["score"]) for row in rows]
    np.testing.assert_allclose(found, scores, rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("step_by_step")
def test_npz(tmp_path, monkeypatch):
    quick = PCAScale(steps=3, batch_size=32, random_state=0)
    monkeypatch.setattr(outliers, "PCAScale", lambda **options: quick)
    np.savez(tmp_path / "data.npz", X=table())
    output = tmp_path / "scores.csv"
    arguments = ["detect", str(tmp_path / "data.npz"), "--output", str(output)]
    assert main(arguments) == 0
    assert len(output.read_text().splitlines()) == 81


def test_bad_tables_are_refused(tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text("1,2\n3\n")
    assert "row 1: 1" in refusal(capsys, "detect", path)
    assert not path.with_suffix(".scores.csv").exists()


def test_pickles_and_unknown_files_are_refused(tmp_path, capsys):
    np.savez(tmp_path / "data.npz", X=np.array([{"a": 1}], dtype=object))
    assert "pickled" in refusal(capsys, "detect", tmp_path / "data.npz")
    missing = refusal(capsys, "detect", tmp_path / "missing.csv")
    assert "no such file" in missing
    (tmp_path / "data.parquet").write_text("PAR1")
    damaged = refusal(capsys, "detect", tmp_path / "data.parquet")
    assert "not a .parquet" in damaged
    (tmp_path / "data.xls").write_text("1")
    other = refusal(capsys, "detect", tmp_path / "data.xls")
    assert "must be an .npz, a .csv or a .parquet" in other


def test_a_table_that_may_be_cut_is_said(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("1,2\n3,4\n5,1")
    with pytest.warns(UserWarning, match="may be cut off"):
        table, _ = load_table(path)
    assert table.shape == (3, 2)


def write_parquet(path, columns):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return str(path)


def test_parquet_may_hold_texts_dates_and_gaps(tmp_path, capsys):
    columns = {
        "size": [1.5, None, 3.5, 4.5],
        "town": ["Bonn", "Kiel", "Bonn", None],
        "day": np.array(["2024-01-01"] * 3 + ["2024-01-02"], "datetime64[D]"),
        "right": [True, False, True, True],
    }
    path = write_parquet(tmp_path / "data.parquet", columns)
    found, names = load_table(path)
    known = ["town = Bonn", "town = Kiel", "day (days since 1970)"]
    assert names == ["size", *known, "right", "size is missing"]
    assert found.tolist() == [
        [1.5, 1, 0, 19723, 1, 0],
        [3.5, 0, 1, 19723, 0, 1],
        [3.5, 1, 0, 19723, 1, 0],
        [4.5, 0, 0, 19724, 1, 0],
    ]
    *_, notes = read_table(path)
    assert "Texts: town (2 different)" in notes and "Dates: day (ISO)" in notes
    nested = write_parquet(tmp_path / "lists.parquet", {"a": [[1], [2]]})
    assert "column `a` must have one" in refusal(capsys, "detect", nested)


@pytest.mark.usefixtures("step_by_step")
def test_detect_says_what_it_left_out(tmp_path, capsys, monkeypatch):
    quick = PCAScale(steps=1, batch_size=4)
    monkeypatch.setattr(outliers, "PCAScale", lambda **options: quick)
    rows = [f"{i % 7},{'ab'[i % 2]},person {i}" for i in range(40)]
    path = tmp_path / "my data.csv"
    path.write_text("n,kind,name\n" + "\n".join(rows) + "\n")
    page = tmp_path / "page.html"
    assert main(["detect", str(path), "--page", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "Texts: kind (2 different)." in printed
    assert "Ignored: name (40 different texts)." in printed
    assert f"keras-likelihood detect '{path}' --save" in printed
    text = page.read_text()
    assert "Ignored: name" in text and "<svg" in text
