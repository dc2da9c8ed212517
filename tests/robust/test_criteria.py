"""The criteria are densities, and their slopes are their slopes."""

import numpy as np
import pytest
from scipy import integrate

from keras_likelihood.robust.problem import DataScale, Problem

pytestmark = pytest.mark.one_backend

CASES = [
    (DataScale(), 0.5),
    (DataScale(), 4.0),
]


def central_difference(function, at, step=1e-6):
    return (function(at + step) - function(at - step)) / (2 * step)


@pytest.mark.parametrize(("criterion", "shape"), CASES)
def test_density_integrates_to_one(criterion, shape):
    """With r = tan(t) the tails up to infinity are within reach."""
    log_normaliser = criterion.log_normaliser(shape)[0]

    def density(angle):
        r = np.tan(angle)
        log_density = -criterion.rho(r**2, shape) - log_normaliser
        return np.exp(log_density) / np.cos(angle) ** 2

    # Near the right angle, up to which 1e-3 of a Cauchy's mass is missing.
    total, _ = integrate.quad(density, 0, np.pi / 2, limit=500)
    assert 2 * total / np.sqrt(2 * np.pi) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(("criterion", "shape"), CASES)
def test_slopes(criterion, shape):
    q = np.array([0.0, 0.3, 1.4, 6.0, 900.0])
    weight = central_difference(lambda q: 2 * criterion.rho(q, shape), q)
    np.testing.assert_allclose(criterion.weight(q, shape), weight, atol=1e-6)
    slope = central_difference(lambda s: criterion.rho(q, s), shape)
    np.testing.assert_allclose(
        criterion.shape_slope(q, shape), slope, rtol=1e-4, atol=1e-6
    )
    slope = central_difference(lambda s: criterion.log_normaliser(s)[0], shape)
    assert criterion.log_normaliser(shape)[1] == pytest.approx(slope, rel=1e-4)


def test_rho_is_the_normal_with_its_prior():
    """-log N(r; 0, scale) - log prior, from their definitions."""
    q = np.array([0.01, 1.0, 30.0])
    data = DataScale(dimensions=3)
    scale = data.scale(q, 2.0)
    expected = 3 * np.log(scale) + q / (2 * scale**2) + 2 * np.log(scale)
    np.testing.assert_allclose(data.rho(q, 2.0), expected)


@pytest.mark.parametrize("other", [0.9, 1.1])
def test_data_scale_is_the_best_scale(other):
    q, data = np.array([5.0, 80.0]), DataScale()
    scale = other * data.scale(q, 1.0)
    moved = 2 * np.log(scale) + q / (2 * scale**2)
    assert np.all(moved > data.rho(q, 1.0))


@pytest.mark.parametrize("shape", [1.7, 1e12])
def test_gradient_of_the_objective(rng, shape):
    x = np.column_stack([rng.normal(size=(20, 2)), np.ones(20)])
    problem = Problem(
        x,
        x[:, 0] + rng.standard_t(2, size=20),
        rng.uniform(0.5, 2, 20),
        DataScale(),
        shape=None if shape < 1e12 else shape,
        slopes=True,
        restraint=0.7,
        lowest=-9.0,
    )
    point = np.array([0.8, 0.1, -0.2, 0.3, -0.4, -0.5, shape])

    def value(z):
        return problem.objective(z[:3], z[3:5], z[5], z[6])[0]

    gradient = np.hstack(
        problem.objective(point[:3], point[3:5], point[5], point[6])[1]
    )
    steps = 1e-6 * np.eye(7)
    expected = [(value(point + s) - value(point - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)
