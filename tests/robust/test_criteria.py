"""The robust loss is a density, and its derivatives are right."""

import dataclasses

import numpy as np
import pytest
from scipy import integrate

from keras_likelihood.robust.data_scale import (
    Problem,
    Solution,
    influence,
    log_normaliser,
    rho,
)

pytestmark = pytest.mark.one_backend


@pytest.mark.parametrize("restraint", [0.5, 4.0])
def test_density_integrates_to_one(restraint):
    """With r = tan(t) the tails up to infinity are included."""
    normaliser = log_normaliser(restraint)[0]

    def density(angle):
        log_density = -rho(np.tan(angle) ** 2, 1 + restraint) - normaliser
        return np.exp(log_density) / np.cos(angle) ** 2

    # Near the right angle, up to which 1e-3 of a Cauchy's mass is missing.
    total, _ = integrate.quad(density, 0, np.pi / 2, limit=500)
    assert 2 * total / np.sqrt(2 * np.pi) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("a", [1.5, 5.0])
def test_influence_is_the_slope(a):
    q = np.array([0.0, 0.3, 1.4, 6.0, 900.0])
    slope = (rho(q + 1e-6, a) - rho(q - 1e-6, a)) / 1e-6
    np.testing.assert_allclose(influence(q, a), slope, atol=1e-6)


def test_rho_is_the_normal_with_its_prior():
    """-log N(r; 0, scale) - log prior at the best scale; three residuals."""
    q, restraint = np.array([0.01, 1.0, 30.0, 80.0]), 2.0
    a = 3 + restraint

    def cost(scale):
        return a * np.log(scale) + q / (2 * scale**2)

    best = np.sqrt(np.maximum(q / a, 1))
    np.testing.assert_allclose(rho(q, a), cost(best))
    for other in (0.9, 1.1):
        # There are no scales below 1, the floor.
        assert np.all(cost(np.maximum(other * best, 1)) >= rho(q, a))


@pytest.mark.parametrize("restraint", [1.7, np.inf])
def test_gradient_of_the_objective(rng, restraint):
    x = np.column_stack([rng.normal(size=(20, 2)), np.ones(20)])
    problem = Problem(
        x,
        x[:, 0] + rng.standard_t(2, size=20),
        rng.uniform(0.5, 2, 20),
        lowest=-9.0,
        restraint=None,
        decay=0.7,
    )
    point = Solution(
        np.array([0.8, 0.1, -0.2]), np.array([0.3, -0.4]), -0.5, restraint
    )
    gradients = problem.objective(point)[1]
    for field, gradient in zip(
        dataclasses.fields(point), gradients, strict=True
    ):
        value = getattr(point, field.name)
        for place in np.ndindex(np.shape(value)):
            step = np.zeros(np.shape(value))
            step[place] = 1e-6
            ends = [
                problem.objective(
                    dataclasses.replace(point, **{field.name: value + move})
                )[0]
                for move in (step, -step)
            ]
            expected = (ends[0] - ends[1]) / 2e-6
            assert np.asarray(gradient)[place] == pytest.approx(
                expected, rel=1e-4, abs=1e-4
            )
