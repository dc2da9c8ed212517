"""The rules behind the learned scales, against slow and exact answers."""

import numpy as np
import pytest
from keras import ops
from scipy import optimize, stats

from keras_likelihood.regularizers import evidence


def tensor(value):
    return ops.convert_to_tensor(np.asarray(value, dtype="float32"))


def soft_threshold_risk(threshold, share):
    """Error of soft thresholding unit noise around zeros and huge values."""
    tail = stats.norm.sf(threshold)
    zeros = (1 + threshold**2) * tail - threshold * stats.norm.pdf(threshold)
    return share * (1 + threshold**2) + 2 * (1 - share) * zeros


@pytest.mark.parametrize("share", [0.001, 0.02, 0.2, 0.6, 0.95])
def test_best_threshold_has_the_least_error(share):
    best = optimize.minimize_scalar(
        soft_threshold_risk, args=(share,), bounds=(1e-6, 6), method="bounded"
    ).x
    passing = share + (1 - share) * 2 * stats.norm.sf(best)
    found = float(evidence.best_threshold(tensor(passing)))
    np.testing.assert_allclose(found, best, rtol=2e-3)


def test_best_threshold_solves_its_equation():
    share = np.array([1e-4, 1e-2, 0.1, 0.5, 0.9, 0.999])

    def solve(s):
        def excess(t):
            inside = 1 - 2 * stats.norm.sf(t)
            return t * inside / (2 * stats.norm.pdf(t)) - (1 - s) / s

        return optimize.brentq(excess, 1e-6, 8)

    found = ops.convert_to_numpy(evidence.best_threshold(tensor(share)))
    np.testing.assert_allclose(found, [solve(s) for s in share], rtol=1e-4)


def test_best_threshold_of_laplace_weights_is_their_own_scale():
    noise, b = 0.02, 1.0
    threshold = noise**2 / b
    true = np.linspace(-1, 1, 200_001)
    between = stats.norm.cdf((threshold - true) / noise) - stats.norm.cdf(
        (-threshold - true) / noise
    )
    off = np.trapezoid(stats.laplace(scale=b).pdf(true) * between, true)
    found = float(evidence.best_threshold(tensor(1 - off)))
    np.testing.assert_allclose(found, noise / b, rtol=0.02)


@pytest.mark.parametrize("columns", [50, 400, 800])
def test_smooth_evidence_counts_the_freedom_of_a_design(columns, rng):
    rows, scale, noise = 400, 1.5, 1.0
    x = rng.standard_normal((rows, columns))
    eigenvalues = np.linalg.eigvalsh(x.T @ x).clip(0)
    exact = np.sum(eigenvalues / (eigenvalues + noise**2 / scale**2))
    found = evidence.smooth_evidence(
        tensor(np.ones((columns, 1))),
        tensor([[scale]]),
        tensor(noise),
        float(rows),
        1.0,
    )
    # What matters is the small number of examples that are left over.
    np.testing.assert_allclose(
        rows - float(found.freedom), rows - exact, rtol=0.1, atol=1.0
    )
    np.testing.assert_allclose(
        float(found.precision), rows - float(found.freedom), rtol=1e-4
    )


def test_smooth_evidence_of_many_scales_is_consistent(rng):
    scale = np.exp(rng.normal(-2, 2, size=(300, 1)))
    found = evidence.smooth_evidence(
        tensor(scale), tensor(scale), tensor(0.5), 100.0, 1.0
    )
    signal = float(found.precision) * scale**2
    used = np.sum(signal / (1 + signal))
    np.testing.assert_allclose(float(found.freedom), used, rtol=1e-4)
    np.testing.assert_allclose(
        float(found.precision), (100 - used) / 0.25, rtol=1e-3
    )


def test_smooth_evidence_knows_the_scale_of_the_inputs():
    weight, scale = tensor(np.ones((30, 1))), tensor([[0.1]])
    wide = evidence.smooth_evidence(weight, scale, tensor(1.0), 100.0, 3.0)
    clear = evidence.smooth_evidence(
        weight, scale, tensor(1.0 / 3.0), 100.0, 1.0
    )
    np.testing.assert_allclose(
        float(wide.precision), float(clear.precision), rtol=1e-5
    )


def test_sparse_evidence_counts_what_is_on():
    values = np.zeros((20, 1))
    values[:5] = 1.0
    values[5:8] = 1e-3
    found = evidence.sparse_evidence(tensor(values), tensor(1.0), 100.0, 1.0)
    assert float(found.freedom) == 5
    np.testing.assert_allclose(float(found.precision), 95.0, rtol=1e-6)
    np.testing.assert_array_equal(
        ops.convert_to_numpy(found.on)[:, 0], values[:, 0] == 1.0
    )


def test_more_weights_than_examples_leave_something_over():
    found = evidence.sparse_evidence(
        tensor(np.ones((500, 1))), tensor(1.0), 100.0, 1.0
    )
    assert 0 < float(found.precision) <= 100
    assert float(found.freedom) == 99


def test_price_is_odds_times_occam_factor():
    values = np.zeros((100, 1))
    values[:10] = 2.0
    found = evidence.sparse_evidence(tensor(values), tensor(1.0), 1000.0, 1.0)
    price = float(evidence.price_of_a_weight(tensor(values), found))
    expected = 2 * np.log(9.0) + 2 * np.log(2.0 * np.sqrt(990.0))
    np.testing.assert_allclose(price, expected, rtol=1e-5)


def test_price_starts_low():
    values = np.full((100, 1), 1e-4)
    found = evidence.sparse_evidence(tensor(values), tensor(50.0), 100.0, 1.0)
    assert float(evidence.price_of_a_weight(tensor(values), found)) == 1.0
