"""Numerical distribution functions against SciPy's closed forms."""

import math

import numpy as np
import pytest
from keras import ops
from scipy import special, stats

from keras_likelihood.likelihoods import quadrature


def cdf(nll, z):
    return ops.exp(quadrature.log_cdf(nll, z))


def quantile(nll, p):
    tail = ops.where(p < 0.5, p, 1 - p)
    return ops.sign(0.5 - p) * quadrature.log_quantile(nll, ops.log(tail))


PROBABILITIES = np.array([1e-5, 0.003, 0.2, 0.5, 0.55, 0.9, 0.9999])
ERRORS = {"float32": 1e-6, "float64": 1e-9}
STEEP_ERRORS = {"float32": 1e-3, "float64": 1e-4}


def student_t(df):
    constant = 0.5 * math.log(df * math.pi)
    constant += special.gammaln(df / 2) - special.gammaln((df + 1) / 2)
    return lambda z: (df + 1) / 2 * ops.log1p(z * z / df) + constant


def normal(z):
    return 0.5 * z * z + 0.5 * math.log(2 * math.pi)


def laplace(z):
    return ops.abs(z) + math.log(2)


def uniform_like(z):
    """exp(-z^32), almost uniform on (-1, 1)."""
    power = ops.clip(z * z, 0, 10.0) ** 16
    return power + float(np.log(2 * special.gamma(1 + 1 / 32)))


CASES = {
    "t(0.5)": (student_t(0.5), stats.t(0.5)),
    "cauchy": (student_t(1.0), stats.cauchy),
    "t(4)": (student_t(4.0), stats.t(4)),
    "normal": (normal, stats.norm),
    "laplace": (laplace, stats.laplace),
    "steep": (uniform_like, stats.gennorm(32)),
}


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("name", [n for n in CASES if n != "steep"])
def test_cdf_including_tails(name, dtype, double_precision):
    nll, oracle = CASES[name]
    far = np.concatenate([[0.0, 1e-3], np.logspace(-1, 5, 13)])
    z = np.concatenate([-far, far]).astype(dtype)
    found = ops.convert_to_numpy(cdf(nll, ops.convert_to_tensor(z)))
    np.testing.assert_allclose(
        found, oracle.cdf(z.astype("float64")), atol=ERRORS[dtype], rtol=0
    )


@pytest.mark.few(3)
@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("name", CASES)
def test_quantile_inverts_the_distribution(name, dtype, double_precision):
    nll, oracle = CASES[name]
    p = PROBABILITIES.astype(dtype)
    found = ops.convert_to_numpy(quantile(nll, ops.convert_to_tensor(p)))
    error = (STEEP_ERRORS if name == "steep" else ERRORS)[dtype]
    again = oracle.cdf(found.astype("float64"))
    np.testing.assert_allclose(again, p, atol=error, rtol=0)
    assert found[PROBABILITIES == 0.5] == 0


def test_parameters_broadcast_against_the_argument():
    df = ops.convert_to_tensor(np.array([[1.0], [2.0]], "float32"))

    def nll(z):
        # Student's t without its constant: Cauchy, and half of pi less at 2.
        constant = ops.convert_to_tensor(
            np.array([[math.log(math.pi)], [1.5 * math.log(2)]], "float32")
        )
        return (df + 1) / 2 * ops.log1p(z * z / df) + constant

    z = ops.convert_to_tensor(np.array([[-1.0, 0.0, 3.0]], "float32"))
    expected = np.stack([stats.t(k).cdf([-1.0, 0.0, 3.0]) for k in (1.0, 2.0)])
    found = ops.convert_to_numpy(cdf(nll, z))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    p = ops.convert_to_tensor(np.float32(0.9))
    found = ops.convert_to_numpy(quantile(nll, p))
    np.testing.assert_allclose(
        found[:, 0], [stats.t(k).ppf(0.9) for k in (1.0, 2.0)], rtol=1e-4
    )
