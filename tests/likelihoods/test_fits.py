"""Every likelihood recovers the parameters of data drawn from it."""

import numpy as np
import pytest
from keras import ops
from scipy import optimize, special, stats

from keras_likelihood import likelihoods
from tests.autodiff import for_scipy

ROWS = 4000


def uniform(rng):
    return rng.uniform(size=(ROWS, 1))


def ordinal_targets(rng, score, cuts):
    shares = special.expit(np.asarray(cuts) - score)
    return (uniform(rng) > shares).sum(axis=1, keepdims=True)


def zero_inflated(rng, counts, share):
    return np.where(uniform(rng) < share, 0, counts)


def huber_quantile(p, k):
    centre, tail = (
        np.sqrt(2 * np.pi) * (1 - 2 * stats.norm.cdf(-k)),
        np.exp(-k * k / 2) / k,
    )
    mass = np.minimum(p, 1 - p) * (centre + 2 * tail)
    inside = (mass - tail) / np.sqrt(2 * np.pi) + stats.norm.cdf(-k)
    size = np.where(
        mass < tail,
        k - np.log(np.minimum(mass / tail, 1)) / k,
        -stats.norm.ppf(np.clip(inside, 1e-9, 0.5)),
    )
    return np.where(p < 0.5, -size, size)


CASES = {
    "poisson": ((3.5,), lambda r: r.poisson(3.5, (ROWS, 1))),
    "negative_binomial": (
        (4.0, 0.6),
        lambda r: stats.nbinom(1 / 0.6, 1 / (1 + 0.6 * 4)).rvs(
            (ROWS, 1), random_state=r
        ),
    ),
    "exponential": ((2.5,), lambda r: r.exponential(2.5, (ROWS, 1))),
    "gamma": ((2.5, 3.0), lambda r: r.gamma(3.0, 2.5 / 3, (ROWS, 1))),
    "log_normal": (
        (2.0, 0.6),
        lambda r: r.lognormal(np.log(2) - 0.18, 0.6, (ROWS, 1)),
    ),
    "weibull": (
        (2.0, 1.7),
        lambda r: 2 / special.gamma(1 + 1 / 1.7) * r.weibull(1.7, (ROWS, 1)),
    ),
    "beta": ((0.3, 8.0), lambda r: r.beta(2.4, 5.6, (ROWS, 1))),
    "von_mises": ((0.7, 2.5), lambda r: r.vonmises(0.7, 2.5, (ROWS, 1))),
    "logistic": ((1.0, 0.4), lambda r: r.logistic(1.0, 0.4, (ROWS, 1))),
    "huber": (
        (1.0, 0.9, 0.5),
        lambda r: 1 + 0.5 * huber_quantile(uniform(r), 0.9),
    ),
    "ordinal(4)": (
        (0.4, (0.8, 1.5)),
        lambda r: ordinal_targets(r, 0.4, (-1.15, -0.35, 1.15)),
    ),
    "zero_inflated(poisson)": (
        (0.75 * 2.5, 0.25),
        lambda r: zero_inflated(r, r.poisson(2.5, (ROWS, 1)), 0.25),
    ),
}


def inverse(constraint, value):
    return np.ravel(value if constraint is None else constraint.inverse(value))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_finds_the_true_parameters(name, double_precision):
    """Estimates lie in the joint 99.9 % confidence region."""
    likelihood = likelihoods.get(name)
    truth, make = CASES[name]
    y = make(np.random.default_rng(0)).astype("float64")
    constraints = [
        likelihood.prediction_constraint,
        *(p.constraint for p in likelihood.parameters),
    ]
    names = ["prediction", *(p.name for p in likelihood.parameters)]
    pairs = list(zip(constraints, truth, strict=True))
    sizes = [np.size(t) for t in truth]
    truth = np.concatenate([inverse(c, t) for c, t in pairs])

    def mean_nll(theta):
        values, at = {}, 0
        for key, constraint, size in zip(
            names, constraints, sizes, strict=True
        ):
            part = ops.reshape(theta[at : at + size], (1, size))
            values[key] = part if constraint is None else constraint(part)
            at += size
        prediction = values.pop("prediction")
        prediction = ops.broadcast_to(prediction, (ROWS, 1))
        # `ops.mean` on PyTorch turns float64 into float32.
        return ops.sum(likelihood(prediction, **values).nll(y)) / ROWS

    evaluate = for_scipy(mean_nll)
    start = [
        inverse(p.constraint, np.resize(p.initial, size))
        for p, size in zip(likelihood.parameters, sizes[1:], strict=True)
    ]
    start = np.concatenate([[0.5], *start])
    found = optimize.minimize(
        evaluate, start, jac=True, method="BFGS", tol=1e-7
    )
    information = [
        (evaluate(found.x + step)[1] - evaluate(found.x - step)[1]) / 2e-4
        for step in 1e-4 * np.eye(len(truth))
    ]
    gap = found.x - truth
    distance = ROWS * gap @ np.asarray(information) @ gap
    assert distance <= stats.chi2.ppf(0.999, len(truth))


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
