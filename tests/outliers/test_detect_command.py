"""`keras-likelihood detect` as a user runs it."""

import csv

import numpy as np
import pytest

from keras_likelihood.cli import main
from keras_likelihood.commands import detect
from keras_likelihood.outliers import PCAScale
from tests.refusals import refusal


def table(rows=80):
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, 3))
    x[7] = [30.0, -30.0, 30.0]
    return x


def write_csv(path, x, header=None):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow(header)
        writer.writerows(x)
    return str(path)


def test_csv_to_scores_and_flags(tmp_path, capsys):
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
    assert "4 of 80 rows flagged" in printed
    assert "above the threshold" in printed
    strangest = next(v for v in printed.splitlines() if v.split()[:1] == ["7"])
    assert all(name in strangest for name in ("a = 30", "b = -30", "c = 30"))
    assert "PCAScale.load" in printed.splitlines()[-1]
    scores = PCAScale.load(saved).decision_function(table())
    found = [float(row["score"]) for row in rows]
    np.testing.assert_allclose(found, scores, rtol=1e-3, atol=1e-4)


def test_npz(tmp_path):
    np.savez(tmp_path / "data.npz", X=table())
    output = tmp_path / "scores.csv"
    arguments = ["detect", str(tmp_path / "data.npz"), "--output", str(output)]
    assert main(arguments) == 0
    assert len(output.read_text().splitlines()) == 81


def test_header_is_optional(tmp_path):
    x = table()
    plain = detect.load_table(write_csv(tmp_path / "plain.csv", x))
    named = detect.load_table(write_csv(tmp_path / "named.csv", x, "abc"))
    np.testing.assert_allclose(plain[0], x)
    np.testing.assert_allclose(named[0], x)
    assert named[1] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "text, words",
    [
        ("1,2\n3,x\n", "row 1: 'x'"),
        ("1,2\n3\n", "row 1: 1"),
        ("", "empty"),
        ("a,b\n", "no rows"),
        ("1,2\nnan,3\n2,4\n", "NaN"),
    ],
)
def test_bad_tables_are_refused(tmp_path, capsys, text, words):
    path = tmp_path / "data.csv"
    path.write_text(text)
    assert words in refusal(capsys, "detect", path)
    assert not path.with_suffix(".scores.csv").exists()


def test_pickles_and_unknown_files_are_refused(tmp_path, capsys):
    np.savez(tmp_path / "data.npz", X=np.array([{"a": 1}], dtype=object))
    assert "pickled" in refusal(capsys, "detect", tmp_path / "data.npz")
    missing = refusal(capsys, "detect", tmp_path / "missing.csv")
    assert "no such file" in missing
    (tmp_path / "data.parquet").write_text("PAR1")
    other = refusal(capsys, "detect", tmp_path / "data.parquet")
    assert ".npz or .csv" in other


def test_inputs_and_old_scores_are_kept(tmp_path, capsys):
    data = tmp_path / "data.csv"
    write_csv(data, table())
    before = data.read_bytes()
    line = refusal(capsys, "detect", data, "--output", data, "--force")
    assert "must not be the file of data" in line
    (tmp_path / "data.scores.csv").write_text("old")
    assert "--force replaces it" in refusal(capsys, "detect", data)
    assert data.read_bytes() == before
    assert (tmp_path / "data.scores.csv").read_text() == "old"


def test_a_table_that_may_be_cut_is_said(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("1,2\n3,4\n5,1")
    with pytest.warns(UserWarning, match="may be cut off"):
        table, _ = detect.load_table(path)
    assert table.shape == (3, 2)
