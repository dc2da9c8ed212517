"""The variance of every likelihood, against SciPy or its own draws."""

import numpy as np
import pytest
from scipy import stats

from keras_likelihood import likelihoods
from tests.contracts import LIKELIHOODS, as_numpy

MEAN = np.array([[0.4], [1.7]], "float32")
SHARE = np.array([[0.3], [0.8]], "float32")
ANY = np.array([[-2.0], [1.5]], "float32")


def of_weibull(shape):
    unit = stats.weibull_min(shape)
    return (MEAN / unit.mean()) ** 2 * unit.var()


CASES = {
    "normal": (ANY, {"scale": 0.7}, 0.49),
    "laplace": (ANY, {"scale": 0.7}, stats.laplace(scale=0.7).var()),
    "logistic": (ANY, {"scale": 0.7}, stats.logistic(scale=0.7).var()),
    "student_t": (ANY, {"df": 3.0, "scale": 0.7}, stats.t(3, scale=0.7).var()),
    "poisson": (MEAN, {}, MEAN),
    "negative_binomial": (MEAN, {"dispersion": 0.5}, MEAN + 0.5 * MEAN**2),
    "exponential": (MEAN, {}, stats.expon(scale=MEAN).var()),
    "gamma": (MEAN, {"shape": 2.5}, stats.gamma(2.5, scale=MEAN / 2.5).var()),
    "log_normal": (
        MEAN,
        {"scale": 0.6},
        stats.lognorm(0.6, scale=MEAN * np.exp(-0.18)).var(),
    ),
    "weibull": (MEAN, {"shape": 1.6}, of_weibull(1.6)),
    "beta": (
        SHARE,
        {"concentration": 4.0},
        stats.beta(4 * SHARE, 4 - 4 * SHARE).var(),
    ),
    "bernoulli": (ANY, {}, stats.bernoulli(1 / (1 + np.exp(-ANY))).var()),
    "zero_inflated(poisson)": (
        MEAN,
        {"zero_probability": 0.2},
        # E[Y^2] of the mixture of zeros and counts of mean MEAN / 0.8.
        0.8 * (MEAN / 0.8 + (MEAN / 0.8) ** 2) - MEAN**2,
    ),
    "censored(normal)": (ANY, {"scale": 0.7}, 0.49),
    "truncated(normal,low=0.0,high=3.0)": (
        ANY,
        {"scale": 0.7},
        stats.truncnorm(-ANY / 0.7, (3 - ANY) / 0.7, ANY, 0.7).var(),
    ),
    "transformed(normal,log)": (
        MEAN,
        {"scale": 0.3},
        stats.lognorm(0.3, scale=MEAN).var(),
    ),
}
BY_DRAWS = [
    *("huber", "robust_rho", "von_mises", "ordinal(4)"),
    *("quantiles([0.2,0.7])", "mixture(normal,components=3)"),
    *("multivariate_normal(covariance=full)", "softmax"),
]


@pytest.mark.parametrize("name", CASES)
def test_variance_is_that_of_scipy(name):
    prediction, values, expected = CASES[name]
    found = likelihoods.get(name)(prediction, **values).variance()
    expected = np.broadcast_to(expected, prediction.shape)
    # Without a closed form the outer tails are left out.
    np.testing.assert_allclose(as_numpy(found), expected, rtol=2e-4)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", BY_DRAWS)
def test_variance_is_that_of_draws(name):
    likelihood = likelihoods.get(name)
    prediction = np.array([[0.3, 1.1]], "float32")
    options = {"shape": 1.3} if name == "robust_rho" else {}
    if name.startswith("multivariate"):
        options = {"lower": 0.8}
    law = likelihood(prediction, **options)
    drawn = as_numpy(law.sample(10_000, seed=3))
    if name == "softmax":
        drawn = np.eye(2)[drawn]
    if name == "von_mises":
        # The circle is cut opposite to the prediction.
        drawn = np.angle(np.exp(1j * (drawn - prediction)))
    drawn = drawn.astype("float64")
    fourth = ((drawn - drawn.mean(0)) ** 2).std(0) / np.sqrt(len(drawn))
    gap = as_numpy(law.variance()) - drawn.var(0)
    assert (np.abs(gap) < 5 * fourth).all(), (gap, fourth)


def test_every_likelihood_has_one():
    tested = {likelihoods.get(name) for name in (*CASES, *BY_DRAWS)}
    assert {v for v in LIKELIHOODS if not v.event_rank} <= tested | {
        found for found in LIKELIHOODS if "arguments" in vars(found)
    }


def test_heavy_tails_have_none():
    df = np.array([[0.9], [1.5], [2.5]], "float32")
    found = likelihoods.get("student_t")(0 * df, df=df).variance()
    assert np.isnan(as_numpy(found)[0]) and np.isinf(as_numpy(found)[1])
    np.testing.assert_allclose(as_numpy(found)[2], 5.0, rtol=1e-5)
    vector = likelihoods.get("multivariate_student_t(covariance=diagonal)")
    found = vector(np.zeros((1, 2), "float32"), df=4.0, scale=2.0).variance()
    np.testing.assert_allclose(as_numpy(found), 8.0, rtol=1e-5)
