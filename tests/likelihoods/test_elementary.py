"""Functions that compilers fuse freely give the numbers of the stock ones."""

import numpy as np
import pytest
from keras import ops

from keras_likelihood.backend import elementary
from keras_likelihood.likelihoods import RobustRho
from keras_likelihood.likelihoods.log_partition import log_partition
from tests.autodiff import gradients

POSITIVE = np.concatenate([[0.0], np.logspace(-30, 37, 20_001)])
AROUND_ZERO = np.concatenate(
    [np.linspace(-79, 79, 20_001), np.logspace(-20, 0, 2_001)]
)
CASES = {
    "log1p": (elementary.log1p, np.log1p, POSITIVE),
    "expm1": (elementary.expm1, np.expm1, AROUND_ZERO),
}


@pytest.mark.parametrize("name", CASES)
def test_they_are_exact_to_float32(name):
    function, oracle, x = CASES[name]
    x = x.astype("float32")
    expected = oracle(x.astype("float64"))
    found = ops.convert_to_numpy(function(ops.convert_to_tensor(x)))
    np.testing.assert_allclose(found, expected, rtol=3e-7)


def test_gradients_are_finite_far_out():
    x = np.array([0.0, 0.3, 2.0, 1e12, 1e30], "float32")
    (by_x,) = gradients(elementary.log1p, x)
    np.testing.assert_allclose(by_x, 1 / (1 + x.astype("float64")), rtol=1e-5)
    x = np.array([-70.0, -0.1, 0.0, 0.2, 70.0], "float32")
    (by_x,) = gradients(elementary.expm1, x)
    np.testing.assert_allclose(by_x, np.exp(x.astype("float64")), 1e-5, 1e-7)


def test_the_likelihood_is_the_same(rng):
    x, scale = rng.standard_cauchy(400), np.exp(rng.normal(size=400))
    shape = np.round(rng.uniform(0, 3, size=400) * 4) / 4
    inputs = [v.astype("float32")[:, None] for v in (x, shape, scale)]

    def nll(x, shape, scale):
        return RobustRho(0 * x, shape=shape, scale=scale).nll(x)

    found = [ops.convert_to_numpy(nll(*inputs)), *gradients(nll, *inputs)]
    wide = [v.astype("float64") for v in inputs]
    s = (wide[0] / wide[2]) ** 2
    b = np.maximum(np.abs(wide[1] - 2), 1e-9)
    by_x = (1 + s / b) ** (wide[1] / 2 - 1) * wide[0] / wide[2] ** 2
    np.testing.assert_allclose(found[1], by_x, rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(
        found[3], (1 - wide[0] * by_x) / wide[2], rtol=2e-5, atol=1e-5
    )
    a = np.maximum(wide[1], 1e-9)
    rho = b / a * np.expm1(a / 2 * np.log1p(s / b))
    constant = ops.convert_to_numpy(log_partition(inputs[1]))
    expected = rho + np.log(wide[2]) + constant
    np.testing.assert_allclose(found[0], expected, rtol=3e-6, atol=1e-6)
    assert np.all(np.isfinite(found[2]))
