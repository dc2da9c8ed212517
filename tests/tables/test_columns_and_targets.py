"""Kinds of columns, and the likelihood chosen for targets."""

import numpy as np
import pytest

from keras_likelihood.tables import columns
from keras_likelihood.tabular.targets import checked_likelihood, likelihood_of
from keras_likelihood.tabular.training import deal_rows

pytestmark = pytest.mark.one_backend


KINDS = {
    "number": [np.arange(9), np.array([1.0, np.nan]), np.array(["1", "2", ""])],
    "date": [
        np.array(["2024-01-01", "2024-05-01", "NA"]),
        np.array(["2024-01-01", "2025-01-01"], "datetime64[D]"),
    ],
    "category": [
        np.array(["a", "b", "a"]),
        np.array(["a", None, "a"], object),
        np.array([True, "x", 3], object),
    ],
    "ignored": [
        np.ones(5),
        np.full(5, np.nan),
        np.array(["same"] * 5),
        np.array([f"text {at}" for at in range(100)]),
    ],
}


@pytest.mark.parametrize(
    "kind, cells", [(k, c) for k, cases in KINDS.items() for c in cases]
)
def test_kind_of_a_column(kind, cells):
    assert columns.learn_column("name", cells).kind == kind


def test_categories_get_codes_by_frequency():
    cells = np.array(["b", "a", "b", None, "b", "a", "c"], object)
    column = columns.learn_column("name", cells)
    assert column.levels == ["b", "a", "c"]
    codes = column.encode(np.array(["a", "b", "zebra", None], object))
    np.testing.assert_array_equal(codes, [2, 1, 0, np.nan])


def test_a_million_categories_keep_the_most_frequent():
    random = np.random.default_rng(0)
    common = np.repeat([f"city {at}" for at in range(300)], 8)
    rare = [f"village {at}" for at in range(600)]
    cells = random.permutation(np.concatenate([common, rare]))
    column = columns.learn_column("name", cells)
    assert len(column.levels) == columns.MOST_LEVELS
    assert all(level.startswith("city") for level in column.levels)


DATES = {
    "ISO": ["2024-02-01", "2024-12-31T12:00Z"],
    "%d.%m.%Y": ["1.2.2024", "31.12.2024 12:00"],
    "%m/%d/%Y": ["02/01/2024", "12/31/2024 12:00 pm"],
    "%d/%m/%Y": ["01/02/2024", "31/12/2024 12:00:00"],
    "%d %b %Y": ["1 Feb 2024", "31 Dec 2024 12:00"],
}


@pytest.mark.parametrize("name", DATES)
def test_the_format_of_dates_is_learned_and_saved(name):
    texts = DATES[name]
    column = columns.learn_column("day", np.array([*texts, ""]))
    assert (column.kind, column.date_format) == ("date", name)
    column = columns.Column(**vars(column))
    expected = [19754, 20088.5]
    np.testing.assert_allclose(column.encode(np.array(texts)), expected)
    # The date of a row does not depend on the other rows.
    for text, day in zip(texts, expected, strict=True):
        assert column.encode(np.array([text]))[0] == day
    odd = np.array(["32.13.2024", "soon", "", texts[0]])
    assert column.unreadable(odd).tolist() == [True, True, False, False]
    assert np.isnan(column.encode(odd)).tolist() == [True] * 3 + [False]


def test_numbers_far_from_zero_keep_their_differences():
    """Times in seconds, or 1e8 added to a column, survive the cast."""
    x = np.random.default_rng(0).normal(size=200)
    plain = columns.learn_column("x", x)
    np.testing.assert_array_equal(plain.encode(x), x)
    for start in (1e8, 1.7e9, -1e12):
        column = columns.learn_column("x", x + start)
        encoded = column.encode(x + start).astype("float32")
        np.testing.assert_allclose(np.diff(encoded), np.diff(x), atol=3e-4)


def test_cells_that_are_not_numbers_are_reported():
    cells = np.array([*map(str, range(60)), "90.5 kg", "1,090.5", "NA"], object)
    column = columns.learn_column("weight", cells)
    assert column.kind == "number"
    assert np.flatnonzero(column.unreadable(cells)).tolist() == [60, 61]
    notes = columns.notes_of([column], [cells])
    assert notes[1].endswith("2 in `weight`, the first in row 60: '90.5 kg'")
    dates = np.array(["2024-01-01"], "datetime64[D]")
    assert column.unreadable(dates).all(), "a date is no number"


def test_ignored_columns_are_named_with_the_reason():
    cells = {"a": np.ones(3), "b": np.full(3, np.nan), "c": list("xyx")}
    learned = [columns.learn_column(n, np.array(v)) for n, v in cells.items()]
    notes = columns.notes_of(learned, [np.array(v) for v in cells.values()])
    assert notes[0] == "Ignored: a (constant), b (empty)"


def test_blanks_around_texts_are_stripped():
    column = columns.learn_column("x", np.array([" a", "a ", "b", "a"]))
    assert column.levels == ["a", "b"]


def test_huge_numbers_stay_finite():
    column = columns.Column("x", "number")
    found = column.encode(np.array([1e300, -1e300])).astype("float32")
    assert np.isfinite(found).all()


RANDOM = np.random.default_rng(0)
TARGETS = {
    "student_t": [RANDOM.normal(size=200), RANDOM.integers(3, 9, 200)],
    "negative_binomial": [RANDOM.poisson(2.0, 200)],
    "log_normal": [np.exp(2 * RANDOM.normal(size=500))],
    "beta": [RANDOM.beta(2, 3, 200)],
}


def test_wrong_targets_do_not_change_the_likelihood():
    y = RANDOM.normal(300, 60, size=1000)
    y[RANDOM.random(1000) < 0.02] *= 10
    y[RANDOM.random(1000) < 0.02] /= 10
    assert y.max() > 30 * y.min() > 0
    assert likelihood_of(y) == "student_t"


def test_iso_dates_are_read_beside_another_format():
    texts = [f"{day:02}.03.2024" for day in range(1, 31)]
    texts += [f"2024-03-{day:02}" for day in range(1, 31)]
    column = columns.learn_column("day", np.array(texts, object))
    assert (column.kind, column.date_format) == ("date", "%d.%m.%Y")
    days = column.encode(np.array(texts, object)) + column.offset
    np.testing.assert_array_equal(np.diff(days[:30]), 1)
    np.testing.assert_array_equal(days[:30], days[30:])


@pytest.mark.parametrize(
    "name, y", [(k, y) for k, cases in TARGETS.items() for y in cases]
)
def test_likelihood_of_targets(name, y):
    assert likelihood_of(np.asarray(y, "float64")) == name
    assert checked_likelihood(None, np.asarray(y, "float64")).name() == name


def test_likelihood_must_fit():
    y = np.array([-1.0, 2.0])
    with pytest.raises(ValueError, match="Received"):
        checked_likelihood("gamma", y)
    with pytest.raises(ValueError, match="such as 'student_t'.*Received: 'sof"):
        checked_likelihood("softmax", y)


@pytest.mark.parametrize("members, count", [(5, 1), (8, 2)])
def test_every_row_is_held_out(members, count):
    out = deal_rows(101, members, np.random.default_rng(0))
    assert out.shape == (101, count)
    assert all(len(set(row)) == count for row in out.tolist())
    sizes = np.bincount(out.ravel(), minlength=members)
    assert sizes.max() - sizes.min() <= count
    labels = np.arange(101) % 3
    out = deal_rows(101, members, np.random.default_rng(0), labels)
    for label in range(3):
        counts = np.bincount(out[labels == label, 0], minlength=members)
        assert counts.max() - counts.min() <= 1
