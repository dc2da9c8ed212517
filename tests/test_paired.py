"""Paired comparisons of the studies: intervals and mean ranks."""

import numpy as np
import pytest

pytestmark = [pytest.mark.one_backend, pytest.mark.pages]
stats = pytest.importorskip("scipy.stats")
paired = pytest.importorskip("paired")


def test_interval_is_that_of_a_paired_t_test(rng):
    first, second = rng.normal(size=(2, 10))
    mean, low, high = paired.difference(first, second)
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose([low, high], [expected.low, expected.high])
    # Nadeau and Bengio: the variance is (1 / n + test / train) s^2.
    corrected = paired.difference(first, second, overlap=0.25)
    ratio = (corrected[2] - mean) / (high - mean)
    assert ratio == pytest.approx(np.sqrt((0.1 + 0.25) / 0.1))
    assert paired.is_below(first - 10, second)
    assert not paired.is_below(second, first - 10)
    with pytest.raises(ValueError, match="at least two repeats"):
        paired.difference([1.0], [2.0])


def test_mean_ranks():
    """The critical difference of Demsar's Table 5: q = 2.343 of 3 methods."""
    scores = [[3, 3, 3, 2], [2, 2, 2, 3], [1, 1, 1, 1]]
    ranks, p, least = paired.mean_ranks(scores)
    np.testing.assert_allclose(ranks, [1.25, 1.75, 3])
    assert p == stats.friedmanchisquare(*scores).pvalue
    assert least == pytest.approx(2.343 * np.sqrt(12 / 24), abs=2e-3)
