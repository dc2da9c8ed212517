"""Applying the decisions of an audit page to the labels."""

import csv

import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.auditing.decisions import mark_of

pytestmark = pytest.mark.one_backend

LABELS = np.array([0, 1, 2, 0, 1, 2, 0])
HEAD = ("index", "decision", "label", "given", "audit")


def write(path, rows, mark=None, head=HEAD, delimiter=","):
    """Writes a file of rows `(index, decision, label, given)`."""
    mark = mark or mark_of(LABELS, 3)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(head)
        writer.writerows([*row, mark] for row in rows)
    return path


ROWS = [(1, "wrong", 2, 1), (3, "right", "", 0), (5, "wrong", "", 2)]
ROWS += [(6, "unsure", "", 0)]


@pytest.fixture
def decisions(tmp_path):
    return write(tmp_path / "decisions.csv", ROWS)


def test_each_decision_does_what_it_says(decisions):
    before = LABELS.copy()
    y, keep = kl.auditing.apply(LABELS, decisions)
    assert y.tolist() == [0, 2, 2, 0, 1, 2, 0]
    assert keep.tolist() == [True] * 5 + [False, True]
    np.testing.assert_array_equal(LABELS, before)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32"])
def test_labels_keep_their_form(decisions, dtype):
    expected, _ = kl.auditing.apply(LABELS, decisions)
    for y in (LABELS.astype(dtype), LABELS.astype(dtype)[:, None]):
        corrected, keep = kl.auditing.apply(y, decisions)
        assert corrected.dtype == y.dtype and corrected.shape == y.shape
        np.testing.assert_array_equal(corrected.ravel(), expected)
    one_hot = np.eye(3, dtype=dtype)
    corrected, keep = kl.auditing.apply(one_hot[LABELS], decisions)
    np.testing.assert_array_equal(corrected, one_hot[expected])
    assert keep.sum() == 6
    np.testing.assert_array_equal(
        kl.auditing.apply(LABELS.tolist(), decisions)[0], expected
    )


def test_a_spreadsheet_may_have_saved_the_file(tmp_path):
    rows = [(1.0, "Wrong ", 2.0, 1.0), (3, "RIGHT", "", "")]
    path = write(tmp_path / "saved.csv", rows, delimiter=";")
    path.write_text("\ufeff" + path.read_text() + ";;;;\n", encoding="utf-8")
    y, _ = kl.auditing.apply(LABELS, path)
    assert y[1] == 2


def test_targets(tmp_path):
    targets = np.array([0.5, -1.0, 40.0], "float32")
    rows = [(2, "wrong", "-4.25", 40), (0, "wrong", "", 0.5)]
    path = write(tmp_path / "d.csv", rows, mark_of(targets, None))
    for y in (targets, targets[:, None]):
        corrected, keep = kl.auditing.apply(y, path)
        assert corrected.dtype == "float32" and corrected.shape == y.shape
        assert corrected.ravel().tolist() == [0.5, -1.0, -4.25]
        assert keep.tolist() == [False, True, True]
    whole = np.array([1, 2, 40])
    write(path, rows, mark_of(whole, None))
    assert kl.auditing.apply(whole, path)[0].tolist() == [1, 2, -4.25]
    both = np.ones((3, 2))
    write(path, rows, mark_of(both, None))
    with pytest.raises(ValueError, match="several targets"):
        kl.auditing.apply(both, path)
    write(path, rows[1:], mark_of(both, None))
    assert kl.auditing.apply(both, path)[1].tolist() == [False, True, True]


@pytest.mark.parametrize(
    "row, words",
    [
        ((7, "right", "", ""), "`index` must be a whole number from 0 to 6"),
        ((-1, "right", "", ""), "`index` must be.*Received: '-1'"),
        ((0.5, "right", "", ""), "`index` must be"),
        (("nan", "right", "", ""), "`index` must be"),
        ((3, "right", "", 0), "example 3 has two decisions"),
        ((0, "delete", "", ""), "`decision` must be one of.*'delete'"),
        ((0, "", "", ""), "`decision` must be"),
        ((0, "wrong", 3, ""), "`label` must be a whole number from 0 to 2"),
        ((0, "wrong", "=1+1", ""), "`label` must be.*'=1\\+1'"),
        ((0, "wrong", 0, ""), "`label` must be a class other than 0"),
        ((0, "right", 1, ""), "empty unless the decision is wrong"),
        ((0, "unsure", 1, ""), "empty unless the decision is wrong"),
        ((0, "wrong", 2, 1), "`given` must be 0, as in `y`. Received: '1'"),
    ],
)
def test_bad_rows_change_nothing(tmp_path, row, words):
    path = write(tmp_path / "bad.csv", [*ROWS, row])
    with pytest.raises(ValueError, match=words):
        kl.auditing.apply(LABELS, path)


def test_files_of_other_labels_are_refused(tmp_path, decisions):
    with pytest.raises(ValueError, match="the 7 examples.*shape \\(6,\\)"):
        kl.auditing.apply(LABELS[:6], decisions)
    other = LABELS.copy()
    other[2] = 0
    with pytest.raises(ValueError, match="made for labels other than `y`"):
        kl.auditing.apply(other, decisions)
    with pytest.raises(ValueError, match="from 0 to 2"):
        kl.auditing.apply(LABELS + 1, decisions)
    for mark in ("", "classes-3-7-ABC", "=classes"):
        write(decisions, ROWS, mark or " ")
        with pytest.raises(ValueError, match="the mark of one audit"):
            kl.auditing.apply(LABELS, decisions)
    write(decisions, ROWS, head=HEAD[:-1])
    with pytest.raises(ValueError, match="needs the columns index, decision"):
        kl.auditing.apply(LABELS, decisions)
    write(decisions, [])
    with pytest.raises(ValueError, match="contains no rows"):
        kl.auditing.apply(LABELS, decisions)
    decisions.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(ValueError, match="must be plain text"):
        kl.auditing.apply(LABELS, decisions)
    with pytest.raises(FileNotFoundError):
        kl.auditing.apply(LABELS, tmp_path / "none.csv")


def test_marks_differ_where_labels_do():
    marks = {
        mark_of(LABELS, 3),
        mark_of(LABELS, 4),
        mark_of(LABELS, None),
        mark_of(LABELS[::-1], 3),
        mark_of(LABELS[:6], 3),
    }
    assert len(marks) == 5
    assert mark_of(LABELS.astype("int8"), 3) == mark_of(LABELS, 3)
