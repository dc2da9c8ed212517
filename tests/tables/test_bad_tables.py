"""A bad table raises one clear error before any training."""

import numpy as np
import pytest

import keras_likelihood as kl

Y = np.arange(6.0)
BAD = {
    "empty": (np.zeros((0, 2)), Y[:0], "0 sample"),
    "no columns": (np.zeros((6, 0)), Y, "0 feature"),
    "an empty dict": ({}, Y, "Received: 0 sample"),
    "one row": (np.ones((1, 2)), Y[:1], "Received: 1 sample"),
    "constant columns": (np.ones((6, 2)), Y, "needs an informative column"),
    "texts that all differ": (
        {"name": [f"person {at}" for at in range(30)]},
        np.arange(30.0),
        "text that differs in every row",
    ),
    "a spread of 3 at 1e12": (np.eye(6), Y + 1e12, "closer to zero.*1e.12"),
    "constant target": (np.eye(6), np.ones(6), "Received: 1 in every row"),
    "missing target": (np.eye(6), np.array([*Y[:5], np.nan]), "y contains NaN"),
    "target of text": (np.eye(6), np.array(list("abcdef")), "Received: 'a'"),
    "too many columns": (np.zeros((6, 10_001)), Y, "Received: .*10,001 column"),
    "rows that differ": ({"a": Y, "b": Y[:3]}, Y, "inconsistent numbers"),
    "target of dates": (np.eye(6), Y.astype("M8[D]"), "Received: '1970-01-01'"),
    "infinity in a column": (
        {"a": [*Y[:5], np.inf]},
        Y,
        "`a` must .* infinity",
    ),
    "nested cells": ({"a": [[1, 2]] * 6}, Y, "`a` must.* shape .6, 2."),
    "dicts in cells": ({"a": [{"b": 1}] * 6}, Y, "`a` must .* Received: dict"),
    "complex numbers": ({"a": Y * 1j}, Y, "`a` must .* complex128"),
    "numbers as batches": (iter(Y), None, "A batch must be .* a float64"),
    "infinite values": (np.where(np.eye(6), np.inf, 0.0), Y, "infinity"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_table(name):
    table, y, words = BAD[name]
    with pytest.raises(ValueError, match=words):
        kl.tabular.Regressor().fit(table, y)


def test_columns_need_names_of_their_own():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(np.eye(6)[:, :2], columns=["a", "a"])
    with pytest.raises(ValueError, match="Received: a more than once"):
        kl.tabular.Regressor().fit(table, Y)


def test_bad_settings():
    with pytest.raises(ValueError, match="`members` must.*Received: 1"):
        kl.tabular.Regressor(members=1).fit(np.eye(6), Y)
    with pytest.raises(ValueError, match="`epochs` must.*Received: 0"):
        kl.tabular.Regressor(epochs=0).fit(np.eye(6), Y)
    with pytest.raises(ValueError, match="Received: one class, 'a'"):
        kl.tabular.Classifier().fit(np.eye(6), ["a"] * 6)
    with pytest.raises(ValueError, match="of one type.*Received: NoneType"):
        kl.tabular.Classifier().fit(np.eye(6), [None, *"abcde"])
    with pytest.raises(ValueError, match="`sample_weight` must be finite"):
        kl.tabular.Regressor().fit(np.eye(6), Y, sample_weight=-Y)
