"""Tables in files and in batches equal tables in memory."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.tables import columns, csv_files
from keras_likelihood.tables import reading as tables

pandas = pytest.importorskip("pandas")

ROWS = 150


def make_table():
    """Numbers, texts, dates and missing values; no target in row 3."""
    random = np.random.default_rng(0)
    size = random.normal(size=ROWS)
    table = pandas.DataFrame(
        {
            "size": size,
            "rooms": random.integers(1, 5, ROWS),
            "town": random.choice(["Bonn", "Kiel", "Ulm"], ROWS),
            "built": pandas.Timestamp("2020-01-01")
            + pandas.to_timedelta(random.integers(0, 900, ROWS), "D"),
            "price": 5 + size + random.normal(size=ROWS),
        }
    )
    table.loc[::9, "size"] = np.nan
    table.loc[::7, "town"] = None
    table.loc[3, "price"] = np.nan
    return table


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The same table as a .csv and a .parquet, read in parts of 64 rows."""
    monkeypatch.setattr(csv_files, "PART_ROWS", 64)
    table = make_table()
    table.to_csv(tmp_path / "table.csv")
    table["town"] = table["town"].astype("category")
    table.to_parquet(tmp_path / "table.parquet")
    return tmp_path


def encoded(cells):
    found = [columns.learn_column(n, np.asarray(v)) for n, v in cells.items()]
    return found, np.stack([c.encode(np.asarray(cells[c.name])) for c in found])


@pytest.mark.one_backend
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_is_the_same_table(files, kind):
    found = tables.read_file(files / f"table.{kind}")
    assert encoded(found)[0] == encoded(make_table())[0]
    np.testing.assert_allclose(encoded(found)[1], encoded(make_table())[1])
    texts = [text for text in found["town"] if text]
    assert len({id(text) for text in texts}) == len(set(texts))


@pytest.mark.one_backend
def test_parts_may_look_different(tmp_path, monkeypatch):
    """All rows determine the kind of a column, not only the first part."""
    monkeypatch.setattr(csv_files, "PART_ROWS", 64)
    rows = [f"{at % 3},{at % 5},{at}" for at in range(64)]
    rows += [f"a,x{at % 2},{at}" for at in range(64)]
    rows += [f"1,7,?{at}" for at in range(2)]
    (tmp_path / "a.csv").write_text("n,t,m\n" + "\n".join(rows) + "\n")
    found, values = encoded(tables.read_file(tmp_path / "a.csv"))
    assert [column.kind for column in found] == ["category"] * 2 + ["number"]
    assert found[0].levels == ["a", "1", "0", "2"]
    assert np.isnan(values[2][-2:]).all()


@pytest.mark.one_backend
def test_dates_beside_missing_dates():
    days = np.array(["2024-01-01", "2024-05-01"], "datetime64[ns]")
    batches = [{"a": days}, {"a": np.array([None, None])}]
    cells, _, _ = tables.with_targets(
        ({**b, "y": np.arange(2.0)} for b in batches), None, None, "y"
    )
    column = columns.learn_column("a", cells["a"])
    assert column.kind == "date"
    np.testing.assert_array_equal(
        column.encode(cells["a"]), [19723, 19844, np.nan, np.nan]
    )


def fitted(*args, **kwargs):
    return kl.tabular.Regressor(members=2, epochs=2, random_state=0).fit(
        *args, **kwargs
    )


def batches(table, target=True):
    for part in np.array_split(np.arange(ROWS), 4):
        rows = table.iloc[part]
        if target:
            yield rows
        else:
            yield rows.drop(columns="price"), rows["price"].to_numpy()


def test_rows_without_a_target_are_left_out():
    with pytest.warns(UserWarning, match="1 row.s. without a target"):
        _, y, weight = tables.with_targets(make_table(), None, None, "price")
    assert np.flatnonzero(weight == 0) == [3] and len(y) == ROWS


@pytest.mark.filterwarnings("ignore:1 row.s. without a target")
@pytest.mark.few(0)
def test_files_and_batches_train_the_same_model(files):
    table = make_table()
    x, y = table.drop(columns="price"), table["price"]
    known = y.notna()
    expected = fitted(x[known], y[known]).predict(x)
    named = {"target": "price"}
    model = fitted(files / "table.parquet", **named)
    np.testing.assert_allclose(model.predict(x), expected, rtol=1e-5)
    # The training table has one more column, which is allowed.
    path = str(files / "table.csv")
    np.testing.assert_allclose(model.predict(path), expected, rtol=1e-5)
    assert 3 not in model.held_out_["row"] and 149 in model.held_out_["row"]
    table["price"] = y.fillna(5.0)
    expected = fitted(x, table["price"]).predict(x)
    for given in (batches(table), table):
        found = fitted(given, **named).predict(x)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    found = fitted(batches(table, target=False)).predict(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.few(0)
def test_batches_of_arrays_with_weights():
    x = np.random.default_rng(0).normal(size=(40, 2)).astype("float32")
    weight = np.arange(40) % 2
    parts = [(x[i::4], x[i::4, 0], weight[i::4]) for i in range(4)]
    dataset = iter(parts)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        dataset = tf.data.Dataset.from_tensor_slices(
            tuple(np.concatenate(v) for v in zip(*parts, strict=True))
        ).batch(10)
    model = fitted(dataset)
    assert model.scores_["rows"] == 20
    assert not hasattr(model, "feature_names_in_")
    order = np.concatenate([np.arange(40)[i::4] for i in range(4)])
    expected = fitted(x[order], x[order, 0], weight[order])
    np.testing.assert_allclose(model.predict(x), expected.predict(x), rtol=1e-5)


TABLE = {"a": [1.0, 2.0], "b": [3.0, 4.0]}
BAD = {
    "other file": (("table.xls",), {}, "a .csv or a .parquet. Received: table"),
    "no target": ((TABLE,), {"target": "c"}, "Received: 'c' of a, b"),
    "no names": ((np.eye(3),), {"target": "c"}, "Received: 'c' of no names"),
    "two targets": ((TABLE, [1, 2]), {"target": "b"}, "Received: both"),
    "missing target": (
        ({"a": [1, 2], "b": [None, "NA"]},),
        {"target": "b"},
        "`b` is missing in every row",
    ),
    "no batches": ((iter([]),), {}, "at least one batch. Received: none"),
    "no pairs": ((iter([np.eye(2)]),), {}, "A batch must be .X, y."),
    "y and batches": ((iter([]), [1]), {}, "in addition to batches"),
    "other columns": (
        (iter([(TABLE, [1, 2]), ({"a": [1], "c": [1]}, [1])]),),
        {},
        "same columns: .'a', 'b'.. Received: .'a', 'c'.",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_get_one_sentence(name):
    args, kwargs, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        kl.tabular.Regressor().fit(*args, **kwargs)


def test_bad_files(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_text("PAR1")
    with pytest.raises(ValueError, match="not a .parquet"):
        kl.tabular.Regressor().fit(tmp_path / "a.parquet", target="b")
    with pytest.raises(FileNotFoundError, match="none.csv"):
        kl.tabular.Regressor().fit(tmp_path / "none.csv", target="b")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"keras-likelihood.parquet"):
        kl.tabular.Regressor().fit(tmp_path / "a.parquet", target="b")
