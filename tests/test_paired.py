"""Paired comparisons of the studies: intervals and mean ranks."""

import pathlib

import numpy as np
import pytest

pytestmark = [pytest.mark.one_backend, pytest.mark.pages]

stats = pytest.importorskip("scipy.stats")

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture
def paired(import_from):
    import_from(ROOT / "benchmarks")
    import paired

    return paired


def test_interval_is_that_of_a_paired_t_test(paired, rng):
    first, second = rng.normal(size=(2, 7))
    mean, low, high = paired.difference(first, second)
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose([low, high], [expected.low, expected.high])
    assert mean == pytest.approx(np.mean(first - second))
    assert paired.is_below(first - 10, second)
    assert not paired.is_below(second, first - 10)


def test_five_seeds_reject_a_true_null_five_times_in_a_hundred(paired, rng):
    """A percentile bootstrap of five seeds does so three times as often."""
    gaps = rng.normal(size=(4000, 5))
    nothing = np.zeros(5)
    wrong = [
        paired.is_below(gap, nothing) or paired.is_below(nothing, gap)
        for gap in gaps
    ]
    assert np.mean(wrong) == pytest.approx(0.05, abs=0.01)


def test_splits_of_one_set_have_wider_intervals(paired, rng):
    """Nadeau and Bengio: the variance is (1 / n + test / train) s^2."""
    first, second = rng.normal(size=(2, 10))
    mean, low, high = paired.difference(first, second)
    corrected = paired.difference(first, second, overlap=0.25)
    assert corrected[0] == mean
    ratio = (corrected[2] - mean) / (high - mean)
    assert ratio == pytest.approx(np.sqrt((0.1 + 0.25) / 0.1))


def test_correlated_splits_need_the_correction(paired, rng):
    """Differences whose errors are correlated by test / (test + train)."""
    n, share = 10, 0.2
    shared = rng.normal(size=(3000, 1)) * np.sqrt(share)
    gaps = shared + rng.normal(size=(3000, n)) * np.sqrt(1 - share)
    nothing = np.zeros(n)

    def rejected(overlap):
        return np.mean(
            [paired.is_below(gap, nothing, overlap=overlap) for gap in gaps]
        )

    assert rejected(0.0) > 0.1
    assert rejected(share / (1 - share)) == pytest.approx(0.025, abs=0.01)


def test_one_repeat_has_no_interval(paired):
    with pytest.raises(ValueError, match="at least two repeats"):
        paired.difference([1.0], [2.0])


def test_mean_ranks(paired):
    """The critical difference of Demsar's Table 5: q = 2.343 of 3 methods."""
    scores = [[3, 3, 3, 2], [2, 2, 2, 3], [1, 1, 1, 1]]
    ranks, p, least = paired.mean_ranks(scores)
    np.testing.assert_allclose(ranks, [1.25, 1.75, 3])
    assert p == stats.friedmanchisquare(*scores).pvalue
    assert least == pytest.approx(2.343 * np.sqrt(12 / 24), abs=2e-3)
