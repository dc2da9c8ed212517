"""The density of the robust loss, against closed forms and mpmath."""

import functools

import mpmath as mp
import numpy as np
import pytest
from keras import ops
from scipy import stats

from keras_likelihood.likelihoods import RobustRho
from tests.autodiff import central_differences, gradients

ERRORS = {"float32": 1e-6, "float64": 1e-9}


def column(values, dtype="float64"):
    return np.asarray(values, dtype).reshape(-1, 1)


def numpy(x):
    return ops.convert_to_numpy(x)


@functools.cache
def exact_survival(z, shape):
    """Integral of the density beyond z >= 0, for shape > 0, to 25 digits.

    The trapezoidal rule after t = exp(pi/2 sinh(u)) in place of the residual
    beyond |z|.
    """
    shape, z = mp.mpf(shape), mp.mpf(z)
    b = abs(shape - 2)

    def density(t):
        s = t * t
        if b == 0:
            return mp.exp(-s / 2)
        # Beyond an exponent of 60 the density is negligible.
        exponent = min(shape / 2 * mp.log1p(s / b), 60)
        return mp.exp(-b / shape * mp.expm1(exponent))

    with mp.workdps(25):
        total = mp.mpf(0)
        for k in range(-96, 109):
            u = mp.mpf(k) / 24
            t = mp.exp(mp.pi / 2 * mp.sinh(u))
            total += t * mp.cosh(u) * density(z + t)
        return total


def exact_cdf(z, shape):
    """Distribution function, from the integrals of both halves."""
    z = float(z)
    with mp.workdps(25):
        whole = 2 * exact_survival(0.0, shape)
        tail = exact_survival(abs(z), shape) / whole
        return float(1 - tail if z > 0 else tail)


@pytest.mark.parametrize(
    "shape, oracle",
    [(2.0, stats.norm(0.5, 0.7)), (0.0, stats.cauchy(0.5, 0.7 * 2**0.5))],
)
def test_normal_and_cauchy_are_members(shape, oracle, double_precision):
    y = column([-40.0, -1.0, 0.5, 0.6, 9.0])
    likelihood = RobustRho(np.full_like(y, 0.5), shape=shape, scale=0.7)
    np.testing.assert_allclose(
        numpy(likelihood.nll(y)), -oracle.logpdf(y), rtol=1e-6
    )
    np.testing.assert_allclose(
        numpy(likelihood.cdf(y)), oracle.cdf(y), atol=1e-7
    )


@pytest.mark.parametrize("shape", [0.0, 0.01, 0.5, 1.0, 1.7, 2.0, 2.6, 8.0])
def test_the_density_integrates_to_one(shape, double_precision):
    log_x = np.linspace(-30, 60, 4001)
    x = column(np.exp(log_x))
    nll = RobustRho(np.zeros_like(x), shape=column([shape])).nll(x)
    mass = 2 * np.trapezoid(np.exp(log_x - numpy(nll)[:, 0]), log_x)
    assert mass == pytest.approx(1, abs=1e-9)


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("shape", [0.25, 1.0, 1.75, 2.0, 2.5, 6.0])
def test_cdf_matches_mpmath(shape, dtype, double_precision):
    z = column([-60.0, -4.0, -0.75, 0.0, 0.0625, 1.5, 3.0, 2000.0], dtype)
    likelihood = RobustRho(np.zeros_like(z), shape=column([shape], dtype))
    oracle = [exact_cdf(v, shape) for v in z[:, 0]]
    np.testing.assert_allclose(
        numpy(likelihood.cdf(z))[:, 0], oracle, atol=ERRORS[dtype], rtol=0
    )
    p = column([1e-4, 0.3, 0.5, 0.99], dtype)
    likelihood = RobustRho(np.zeros_like(p), shape=column([shape], dtype))
    again = likelihood.cdf(likelihood.quantile(p))
    np.testing.assert_allclose(numpy(again), p, atol=ERRORS[dtype])


@pytest.mark.parametrize(
    "sizes", [((1, 1), (1, 1)), ((1, 3), (4, 1)), ((4, 3), (4, 3))]
)
def test_gradients_match_differences(sizes, rng, double_precision):
    y = 2 * rng.normal(size=(4, 3))
    y[0, 0] = 0
    shape = rng.uniform(0.1, 2.9, size=sizes[0])
    scale = rng.uniform(0.5, 2, size=sizes[1])

    def nll(prediction, shape, scale):
        return RobustRho(prediction, shape=shape, scale=scale).nll(y)

    arrays = np.zeros((4, 3)), shape, scale
    expected = central_differences(nll, *arrays, step=1e-6)
    for mine, oracle in zip(gradients(nll, *arrays), expected, strict=True):
        np.testing.assert_allclose(mine, oracle, rtol=1e-6, atol=1e-7)


def test_there_is_no_tfp_counterpart():
    with pytest.raises(NotImplementedError, match="RobustRho has no `to_tfp`"):
        RobustRho(np.zeros((1, 1), "float32")).to_tfp()
