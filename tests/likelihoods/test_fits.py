"""Every likelihood recovers the parameters of data drawn from it."""

import numpy as np
import pytest
from keras import ops
from scipy import optimize, stats

from keras_likelihood import likelihoods
from tests.autodiff import for_scipy

ROWS = 4000


def test_quantiles_are_those_of_the_data(double_precision):
    """The NLL is smallest where the share of each level lies below."""
    levels = (0.05, 0.5, 0.95)
    y = np.random.default_rng(0).normal(size=ROWS)
    made = likelihoods.Quantiles(levels)

    def mean_nll(theta):
        quantiles = ops.broadcast_to(theta[None, :3], (ROWS, 3))
        scale = ops.exp(ops.reshape(theta[3:], (1, 1)))
        return ops.sum(made(quantiles, scale=scale).nll(y)) / ROWS

    evaluate = for_scipy(mean_nll)
    start = np.array([-1.0, 0.2, 1.0, 0.0])
    found = optimize.minimize(evaluate, start, jac=True, tol=1e-9).x
    t = np.array(levels)
    truth = stats.norm.ppf(t)
    errors = np.sqrt(t * (1 - t) / ROWS) / stats.norm.pdf(truth)
    assert np.all(np.abs(found[:3] - truth) <= 2 * errors)
    shares = (y[:, None] < found[:3]).mean(axis=0)
    np.testing.assert_allclose(shares, t, atol=2e-3)


@pytest.mark.few(0)
def test_negative_binomial_regression_is_that_of_statsmodels(double_precision):
    """Recorded with statsmodels 0.15.0 on the data below:

    NegativeBinomial(y, [1, x], loglike_method="nb2").fit(method="newton")
    """
    expected = np.array([1.00542982, 0.69118766, 0.53169471])
    log_likelihood = -128.85393938127515
    x = np.linspace(-1, 1, 60)[:, None]
    y = np.floor(np.exp(1.2 + 0.8 * x) * (1 + 0.9 * np.sin(12 * x)))

    def total_nll(theta):
        mean = ops.exp(theta[0] + theta[1] * ops.convert_to_tensor(x))
        dispersion = ops.exp(ops.reshape(theta[2:], (1, 1)))
        made = likelihoods.NegativeBinomial(mean, dispersion=dispersion)
        return ops.sum(made.nll(y))

    found = optimize.minimize(
        for_scipy(total_nll), np.zeros(3), jac=True, tol=1e-8
    )
    np.testing.assert_allclose(found.fun, -log_likelihood, rtol=1e-9)
    found = [*found.x[:2], np.exp(found.x[2])]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
