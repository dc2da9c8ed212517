"""Fisher information against autodiff and SciPy's quadrature."""

import math

import numpy as np
import pytest
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.constraints import Exp
from tests import oracles
from tests.autodiff import gradients


class HyperbolicSecant(likelihoods.LocationScale):
    """A user-defined likelihood that only has a density."""

    parameters = (likelihoods.Parameter("scale", Exp()),)

    def standard_nll(self, z):
        return z + ops.softplus(-2 * z) + math.log(math.pi / 2)


CASES = [
    ("normal", {}),
    ("laplace", {}),
    ("hyperbolic_secant", {}),
    ("logistic", {}),
    ("student_t", {"df": 0.7}),
    ("student_t", {"df": 4.0}),
    ("student_t", {"df": 30.0}),
    ("robust_rho", {"shape": 0.0}),
    ("robust_rho", {"shape": 1.0}),
    ("robust_rho", {"shape": 2.0}),
    ("robust_rho", {"shape": 2.5}),
]
TOLERANCE = {"float32": 1e-5, "float64": 1e-7}


def numpy(x):
    return ops.convert_to_numpy(x)


def around_zero(name, scale, parameters, dtype="float64"):
    prediction = ops.zeros((len(scale), 2), dtype=dtype)
    scale = ops.convert_to_tensor(np.asarray(scale, dtype)[:, None])
    return likelihoods.get(name)(prediction, scale=scale, **parameters)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name, parameters", CASES)
def test_matches_the_oracle(name, parameters, dtype, double_precision):
    scale = np.array([0.1, 1.0, 10.0])
    second, third = oracles.score_moments(
        lambda z: oracles.STANDARD_NLL[name](z, **parameters)
    )
    found = around_zero(name, scale, parameters, dtype)
    information = numpy(found.information())
    assert information.shape == (3, 2)
    assert information.dtype == dtype
    expected = np.tile((second / scale**2)[:, None], 2)
    np.testing.assert_allclose(information, expected, rtol=TOLERANCE[dtype])
    exponent = numpy(found.scale_exponent()) * np.ones(())
    np.testing.assert_allclose(
        exponent,
        0.5 + 0.5 * third / second,
        rtol=1e-4 if name == "robust_rho" else TOLERANCE[dtype],
    )


def test_parameters_of_any_dimension():
    shape = np.array([[0.5], [1.5]], "float32")
    scale = np.array([[1.0, 2.0, 4.0]], "float32")
    prediction = np.zeros((2, 3), "float32")
    found = likelihoods.RobustRho(prediction, shape=shape, scale=scale)
    alone = [
        numpy(likelihoods.RobustRho(prediction[:1, :1], shape=s).information())
        for s in shape[:, 0].tolist()
    ]
    expected = np.array(alone).reshape(2, 1) / scale**2
    np.testing.assert_allclose(numpy(found.information()), expected, rtol=1e-5)
    assert numpy(found.scale_exponent()).shape == (2, 1)


def test_bernoulli_is_the_mean_squared_gradient(rng, double_precision):
    logits = rng.normal(size=(4, 3)) * 3
    temperature = rng.uniform(0.5, 2.0, size=(4, 3))

    def gradient(y):
        return gradients(
            lambda p: likelihoods.Bernoulli(p, temperature=temperature).nll(
                np.full_like(logits, y)
            ),
            logits,
        )[0]

    found = likelihoods.Bernoulli(
        ops.convert_to_tensor(logits), temperature=temperature
    )
    p = numpy(found.mean())
    expected = (1 - p) * gradient(0.0) ** 2 + p * gradient(1.0) ** 2
    np.testing.assert_allclose(numpy(found.information()), expected)


def test_softmax_is_the_covariance_of_gradients(rng, double_precision):
    logits = rng.normal(size=(4, 3)) * 2
    temperature = rng.uniform(0.5, 2.0, size=(4, 1))

    def gradient(label):
        return gradients(
            lambda z: likelihoods.Softmax(z, temperature=temperature).nll(
                np.full(4, label)
            ),
            logits,
        )[0]

    found = likelihoods.Softmax(
        ops.convert_to_tensor(logits), temperature=temperature
    )
    p = numpy(found.mean())
    matrix = sum(
        p[:, c, None, None] * np.einsum("ni,nj->nij", g, g)
        for c, g in enumerate(gradient(c) for c in range(3))
    )
    expected = np.eye(3) * p[:, None, :] - np.einsum("ni,nj->nij", p, p)
    expected = expected / temperature[:, :, None] ** 2
    np.testing.assert_allclose(matrix, expected, atol=1e-7)
    np.testing.assert_allclose(
        numpy(found.information()),
        np.diagonal(matrix, axis1=1, axis2=2),
        rtol=1e-5,
    )


def test_a_likelihood_without_one_says_so():
    class Counts(likelihoods.Likelihood):
        parameters = ()

    with pytest.raises(
        NotImplementedError, match="Counts has no `information`"
    ):
        Counts(np.zeros((1, 1), "float32")).information()
