"""Intervals of an ensemble from the scores of few members per row."""

import numpy as np
import pytest

from keras_likelihood.conformal import ConformalDistribution
from keras_likelihood.conformal.intervals import interval_scores
from keras_likelihood.conformal.scores import CalibrationScores
from keras_likelihood.likelihoods import Normal
from keras_likelihood.tabular.regressor import combined_scores

MEMBERS = 8


def predictions(rows=4000, seed=0):
    """Targets, and predictions of members with independent errors."""
    random = np.random.default_rng(seed)
    y = random.normal(size=(rows, 1)).astype("float32")
    errors = random.normal(size=(MEMBERS, rows, 1)).astype("float32")
    return y, 0.8 * errors


def normal(prediction):
    return Normal(prediction, scale=np.ones_like(prediction))


def test_extrapolates_to_all_members():
    y, found = predictions()
    pair, every = normal(found[:2].mean(axis=0)), normal(found.mean(axis=0))
    scores = [
        interval_scores(v, y)[:, 0] for v in (pair, *map(normal, found[:2]))
    ]
    covered = {}
    for name, values in {
        "pair": scores[0],
        "all": combined_scores(scores, MEMBERS),
    }.items():
        found = CalibrationScores.of(values[:, None])
        lower, upper = ConformalDistribution(every, found).interval(0.9)
        covered[name] = np.mean((lower <= y) & (y <= upper))
    assert covered["pair"] > 0.93
    assert covered["all"] == pytest.approx(0.9, abs=0.015)


def test_no_more_members_change_nothing():
    y, found = predictions(200)
    pair = normal(found[:2].mean(axis=0))
    scores = [
        interval_scores(v, y)[:, 0] for v in (pair, *map(normal, found[:2]))
    ]
    same = combined_scores(scores, 2)
    np.testing.assert_allclose(np.sort(same), np.sort(scores[0]), rtol=1e-6)
    # Each row has one member that did not train on it.
    one = combined_scores(scores[:1], MEMBERS)
    np.testing.assert_array_equal(one, scores[0])
