"""Curvature of penalised fits."""

import numpy as np
import pytest

from keras_likelihood.recalibration.curvature import Curvature


@pytest.mark.parametrize("right", [None, np.diag([1.0, 2.0, 3.0])])
def test_eigenvectors_turn_weights_there_and_back(right, rng):
    half = rng.standard_normal((4, 4))
    curvature = Curvature(half @ half.T, right, 2.0)
    weights = rng.standard_normal((4,) if right is None else (4, 3))
    there = curvature.to_coordinates(weights)
    np.testing.assert_allclose(curvature.to_weights(there), weights)
    columns = np.eye(1) if right is None else right
    matrix = 2.0 * np.kron(half @ half.T, columns)
    exact = weights.ravel() @ matrix @ weights.ravel()
    np.testing.assert_allclose(np.sum(curvature.values * there**2), exact)


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
    weights = rng.standard_normal((5000, 3))
    np.testing.assert_allclose(
        np.abs(curvature.to_coordinates(weights)), np.abs(weights)
    )
