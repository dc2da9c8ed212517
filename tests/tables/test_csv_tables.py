"""Tables in the wild: separators, dates, texts, gaps, encodings."""

import sys

import numpy as np
import pytest

from keras_likelihood.tables import columns, csv_files
from keras_likelihood.tables.number_table import NumberTable

pytestmark = pytest.mark.one_backend


def table_of(folder, text, encoding="utf-8", **options):
    path = folder / "data.csv"
    path.write_bytes(text.encode(encoding))
    return NumberTable(path, **options)


def values_of(table):
    return table.filled()[0].tolist()


@pytest.mark.parametrize(
    "text, names, values",
    [
        ("a,b\n1,2\n3,4\n", ["a", "b"], [[1, 2], [3, 4]]),
        ("1.5,2\n3,4\n", ["column 0", "column 1"], [[1.5, 2], [3, 4]]),
        ("# a,b\n1,2\n", ["a", "b"], [[1, 2]]),
        # As `DataFrame.to_csv` writes it, with and without its index.
        ("0,1\n5,6\n7,8\n", ["0", "1"], [[5, 6], [7, 8]]),
        (",0,1\n0,5,6\n1,7,8\n", ["0", "1"], [[5, 6], [7, 8]]),
        (",a,b\n0,5,6\n1,7,8\n", ["a", "b"], [[5, 6], [7, 8]]),
        ("a\tb\n1\t2\n", ["a", "b"], [[1, 2]]),
        ("a;b\n1,5;2\n3;-0,25\n", ["a", "b"], [[1.5, 2], [3, -0.25]]),
        ('"a, b",c\n"1",2\n', ["a, b", "c"], [[1, 2]]),
        ("2019,2020\n1,2\n", ["column 0", "column 1"], [[2019, 2020], [1, 2]]),
        ("id,2019\nx,1\ny,2\n", ["2019"], [[1], [2]]),
    ],
)
def test_headers_separators_and_indices(tmp_path, text, names, values):
    table = table_of(tmp_path, text)
    assert table.names == names
    assert values_of(table) == values


LATIN = (
    "größe;ort;tag;leer;name;gehalt\n"
    "1,5;Köln;2024-01-01;;a;1\n"
    "2,5;Köln;2024-01-03;;b;\n"
    "3,5;Bonn;2024-01-03;;c;3\n"
    "4,5;Bonn;2024-01-05;;d;5\n"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("pandas", [True, False])
def test_what_can_be_encoded_is_and_the_rest_is_named(
    tmp_path, monkeypatch, encoding, pandas
):
    if not pandas:
        monkeypatch.setitem(sys.modules, "pandas", None)
    table = table_of(tmp_path, LATIN, encoding)
    expected = ["größe", "ort = Bonn", "ort = Köln"]
    expected += ["tag (days since 1970)", "gehalt"]
    assert table.names == expected
    assert table.filled()[1] == [*expected, "gehalt is missing"]
    days = 19723.0
    assert values_of(table)[:2] == [
        [1.5, 0, 1, days, 1, 0],
        [2.5, 0, 1, days + 2, 3, 1],
    ]
    assert np.isnan(table.x[1, 4])
    for words in (
        "Texts: ort (2 different)",
        "Dates: tag (ISO)",
        "Ignored: leer (empty), name (4 different texts)",
        "With missing values: gehalt",
    ):
        assert words in table.notes


def test_all_parts_decide_how_a_column_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "PART_ROWS", 64)
    rows = [f"{i},{'ab'[i % 2]}" for i in range(64)]
    rows += ["nan,7", "x,a", "7,7"]
    table = table_of(tmp_path, "n,t\n" + "\n".join(rows) + "\n")
    names = ["n", "t = 7", "t = a", "t = b", "n is missing"]
    assert table.filled()[1] == names
    median = np.median([*range(64), 7])
    last = [[median, 1, 0, 0, 1], [median, 0, 1, 0, 1], [7, 1, 0, 0, 0]]
    assert values_of(table)[64:] == last


def test_cells_that_are_not_numbers_are_said(tmp_path):
    rows = [f"{i},{i * i}" for i in range(40)]
    rows[7] = "7,about 49"
    table = table_of(tmp_path, "a,b\n" + "\n".join(rows) + "\n")
    (note,) = [note for note in table.notes if "`b`" in note]
    assert "row 7: 'about 49'" in note
    assert values_of(table)[7] == [
        7,
        np.median(np.delete(np.arange(40) ** 2, 7)),
        1,
    ]


@pytest.mark.parametrize(
    "text, words",
    [
        ("a,b\n1,2\n3\n", "row 1: 1"),
        ("a,b\n", "no rows"),
        ("\n\n", "no rows"),
        ("a,b\nx,y\nz,w\n", "no column can be used"),
        ("a,b\n1,\x00\n", "plain text"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path, text, words):
    with pytest.raises(ValueError, match=words):
        values_of(table_of(tmp_path, text))


def test_a_target_is_kept_as_text_and_written_back(tmp_path):
    text = "x;kind;y\n1;cat;2\n2;dog;3\n3;cat;4\n"
    table = table_of(tmp_path, text, target="kind")
    x, labels = table.x, table.y
    assert (table.names, table.target) == (["x", "y"], "kind")
    assert x.tolist() == [[1, 2], [2, 3], [3, 4]]
    assert labels.tolist() == ["cat", "dog", "cat"]
    new = tmp_path / "new.csv"
    keep = np.array([True, False, True])
    file = csv_files.CsvFile(tmp_path / "data.csv")
    file.write(new, table.target, {0: "dog"}, keep)
    assert new.read_text().split() == ["x;kind;y", "1;dog;2", "3;cat;4"]
    assert table_of(tmp_path, text, target="").target == "y"
    with pytest.raises(ValueError, match="Received: 'z'"):
        table_of(tmp_path, text, target="z")


@pytest.mark.few(0)
def test_wide_tables_are_read_in_one_go(tmp_path, monkeypatch):
    """No text or date rule is tried on cells with numbers."""
    monkeypatch.setattr(columns, "as_texts", None)
    monkeypatch.setattr(columns, "as_days", None)
    text = ",".join(f"c{i}" for i in range(20_000))
    text += "\n" + "\n".join([",".join(["1.5"] * 20_000)] * 3) + "\n"
    table = table_of(tmp_path, text)
    assert np.shape(values_of(table)) == (3, 20_000)


def test_a_second_column_of_a_name_is_renamed_as_in_pandas(tmp_path):
    text = "a,b,a,a.1,a\n" + "1,2,3,4,5\n" * 2
    with pytest.warns(UserWarning, match="Renamed: `a` to `a.2`, `a` to `a.3`"):
        table = table_of(tmp_path, text)
    assert table.names == ["a", "b", "a.2", "a.1", "a.3"]


def test_cells_cannot_be_formulas_in_a_spreadsheet(tmp_path):
    cells = ["=1+1", "+x", "-1.5", "@a", "plain", "\tb"]
    csv_files.write_csv(tmp_path / "a.csv", {"=name": cells, "n": [-2] * 6})
    written = (tmp_path / "a.csv").read_text().splitlines()
    expected = ["'=name", "'=1+1", "'+x", "-1.5", "'@a", "plain", "'\tb"]
    assert [line.rpartition(",")[0] for line in written] == expected
    assert written[1].endswith(",-2")


def test_a_misspelt_target_suggests_the_right_one(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'price'"):
        table_of(tmp_path, "price,b\n1,2\n", target="prize")
