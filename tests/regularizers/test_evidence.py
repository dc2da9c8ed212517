"""The rules behind the learned scales, against slow and exact answers."""

import numpy as np
import pytest
from scipy import optimize, stats

from keras_likelihood.regularizers import prior_scales
from keras_likelihood.regularizers.curvature import Curvature


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
    found = float(prior_scales.best_threshold(passing))
    np.testing.assert_allclose(found, best, rtol=2e-3)


def test_best_threshold_solves_its_equation():
    share = np.array([1e-4, 1e-2, 0.1, 0.5, 0.9, 0.999])

    def solve(s):
        def excess(t):
            inside = 1 - 2 * stats.norm.sf(t)
            return t * inside / (2 * stats.norm.pdf(t)) - (1 - s) / s

        return optimize.brentq(excess, 1e-6, 8)

    found = prior_scales.best_threshold(share)
    np.testing.assert_allclose(found, [solve(s) for s in share], rtol=1e-4)


def test_best_threshold_of_laplace_weights_is_their_own_scale():
    noise, b = 0.02, 1.0
    threshold = noise**2 / b
    true = np.linspace(-1, 1, 200_001)
    between = stats.norm.cdf((threshold - true) / noise) - stats.norm.cdf(
        (-threshold - true) / noise
    )
    off = np.trapezoid(stats.laplace(scale=b).pdf(true) * between, true)
    found = float(prior_scales.best_threshold(1 - off))
    np.testing.assert_allclose(found, noise / b, rtol=0.02)


def test_price_is_odds_times_occam_factor():
    values = np.zeros((100, 1))
    values[:10] = 2.0
    precision = np.full((100, 1), 990.0)
    price = prior_scales.price_of_a_weight(values, values > 0, precision)
    expected = 2 * np.log(9.0) + 2 * np.log(2.0 * np.sqrt(990.0))
    np.testing.assert_allclose(price, expected, rtol=1e-6)


def test_price_starts_low():
    values = np.full((100, 1), 1e-4)
    precision = np.full((100, 1), 0.04)
    off = np.zeros((100, 1), bool)
    assert prior_scales.price_of_a_weight(values, off, precision) == 1.0


def curvature_of(x, noise=1.0):
    squares = x.T @ x / noise**2
    return Curvature(squares, np.ones((1, 1)))


def correlated(rng, rows, columns, correlation=0.9):
    x = rng.standard_normal((rows, columns))
    for j in range(1, columns):
        x[:, j] *= np.sqrt(1 - correlation**2)
        x[:, j] += correlation * x[:, j - 1]
    return x


def test_ridge_scale_rests_where_the_evidence_is_highest(rng):
    """Under the scale that it finds, the exact evidence has its maximum."""
    x = correlated(rng, 200, 10)
    y = x @ rng.standard_normal(10) + rng.standard_normal(200)
    h = curvature_of(x)

    def fitted(scale):
        return np.linalg.solve(x.T @ x + np.eye(10) / scale**2, x.T @ y)

    def evidence(log_scale):
        covariance = np.eye(200) + np.exp(2 * log_scale) * x @ x.T
        return -stats.multivariate_normal(cov=covariance).logpdf(y)

    scale = np.array([[0.1]])
    for _ in range(30):
        weight = fitted(scale.item())[:, None]
        scale, freedom, precision = prior_scales.ridge_scale(
            weight, scale, h, 200
        )
    best = optimize.minimize_scalar(evidence, bounds=(-5, 3), method="bounded")
    # The hyper-prior counts as one observation.
    np.testing.assert_allclose(np.log(scale.item()), best.x, atol=0.2)
    hat = x.T @ x @ np.linalg.inv(x.T @ x + np.eye(10) / scale.item() ** 2)
    np.testing.assert_allclose(freedom, np.trace(hat), rtol=0.02)
    assert 0 < precision < 200


def test_group_scales_count_what_the_data_determine(rng):
    x, scale, noise = correlated(rng, 60, 30), 0.7, 2.0
    h = x.T @ x / noise**2
    variance = np.diagonal(np.linalg.inv(h + np.eye(30) / scale**2))
    _, freedom, precision = prior_scales.ridge_scale(
        np.ones((30, 1)),
        np.full((30, 1), scale),
        curvature_of(x, noise),
        60,
    )
    hat = h @ np.linalg.inv(h + np.eye(30) / scale**2)
    np.testing.assert_allclose(freedom, np.trace(hat), rtol=1e-4)
    np.testing.assert_allclose(
        1 / (precision[:, 0] + scale**-2.0), variance, rtol=1e-4
    )


def test_precision_under_l1_is_that_of_the_weights_on(rng):
    x, noise = correlated(rng, 60, 8), 0.5
    weight = np.zeros((8, 1))
    weight[:3] = 2.0
    _, freedom, precision = prior_scales.multi_lasso_scale(
        weight, np.ones((8, 1)), curvature_of(x, noise), 60
    )
    assert freedom == 3
    joined = np.linalg.inv(x[:, :3].T @ x[:, :3] / noise**2)
    np.testing.assert_allclose(
        precision[:3, 0], 1 / np.diagonal(joined), rtol=1e-4
    )
    rest = x[:, 5] - x[:, :3] @ np.linalg.lstsq(x[:, :3], x[:, 5])[0]
    np.testing.assert_allclose(
        precision[5, 0], rest @ rest / noise**2, rtol=1e-4
    )


@pytest.mark.parametrize("right", [None, np.diag([1.0, 2.0, 3.0])])
def test_eigenvectors_turn_weights_there_and_back(right, rng):
    half = rng.standard_normal((4, 4))
    curvature = Curvature(half @ half.T, right, 2.0)
    weights = rng.standard_normal((4,) if right is None else (4, 3))
    there = curvature.to_coordinates(weights)
    np.testing.assert_allclose(curvature.to_weights(there), weights)
    exact = weights.ravel() @ curvature.matrix() @ weights.ravel()
    np.testing.assert_allclose(np.sum(curvature.values * there**2), exact)
    np.testing.assert_allclose(
        curvature.diagonal().ravel(), np.diagonal(curvature.matrix())
    )


def test_scaled_curvatures_share_their_eigenvectors(monkeypatch):
    curvature, calls = Curvature(np.diag([1.0, 2.0])), []
    eigh = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda m: calls.append(m) or eigh(m))
    for factor in 3.0, 5.0:
        values = curvature.scaled(factor).values
        np.testing.assert_allclose(values, [factor, 2 * factor])
    assert len(calls) == 1


def test_a_long_side_is_kept_as_its_diagonal(rng):
    left = rng.uniform(1, 2, 5000)
    curvature = Curvature(left, np.eye(3))
    assert not curvature.is_small
    weights = rng.standard_normal((5000, 3))
    np.testing.assert_allclose(
        np.abs(curvature.to_coordinates(weights)), np.abs(weights)
    )
    np.testing.assert_allclose(curvature.diagonal()[:, 0], left)
