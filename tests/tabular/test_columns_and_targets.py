"""Kinds of columns, and the likelihood chosen for targets."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

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


def test_dates_become_days():
    column = columns.Column("day", "date")
    cells = np.array(["1970-01-03", "nonsense"])
    np.testing.assert_array_equal(column.encode(cells), [2, np.nan])


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
