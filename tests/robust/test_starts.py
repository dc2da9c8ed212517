"""Starting points of robust regressions: planes through small subsets."""

import numpy as np
import pytest

from keras_likelihood.robust import starts

pytestmark = pytest.mark.one_backend


def test_a_subset_without_outliers_is_missed_once_in_a_million():
    for columns in range(2, 12):
        needed = starts._subsets_needed(columns)
        missed = 1 - 0.55**columns
        assert missed**needed <= 1e-6 < missed ** (needed - 1)
    # Powers of many columns are zero.
    assert starts._subsets_needed(5000) > 1e9


@pytest.mark.parametrize("columns", [2, 4, 8])
def test_planes_of_clean_subsets_survive(rng, columns):
    """A third of the rows form a cluster that no plane of the others meets."""
    x = np.c_[rng.normal(size=(150, columns - 1)), np.ones(150)]
    true = rng.normal(size=columns)
    y = x @ true + 0.01 * rng.normal(size=150)
    x[:50, :-1] = 4 + 0.1 * rng.normal(size=(50, columns - 1))
    y[:50] = 30 + 0.01 * rng.normal(size=50)
    random = np.random.RandomState(0)
    planes = starts.concentrated(x, y, np.ones(150), random)
    assert planes.shape == (8 if columns == 8 else 5, columns)
    assert np.abs(planes - true).max(axis=1).min() < 0.05


def test_subsets_of_many_columns_fit_the_memory(monkeypatch, rng):
    monkeypatch.setattr(starts, "_MOST_NUMBERS", 40 * 50**2)
    shapes, draw_rows = [], starts.draw_rows

    def recorded(weight, shape, rng):
        shapes.append(shape)
        return draw_rows(weight, shape, rng)

    monkeypatch.setattr(starts, "draw_rows", recorded)
    x, y = rng.normal(size=(100, 50)), rng.normal(size=100)
    starts.concentrated(x, y, np.ones(100), np.random.RandomState(0))
    assert shapes == [(40, 50)]
