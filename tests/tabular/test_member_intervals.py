"""Intervals of an ensemble from the scores of few members per row."""

import numpy as np
import pytest

from keras_likelihood.conformal import ConformalIntervals
from keras_likelihood.conformal.prediction import interval_scores
from keras_likelihood.likelihoods import Normal
from keras_likelihood.tabular.regressor import calibrated_intervals

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
    for name, fitted in {
        "pair": ConformalIntervals(trust=1.0).fit_distribution(pair, y),
        "all": calibrated_intervals(scores, MEMBERS),
    }.items():
        lower, upper = fitted.calibrate(every).interval(0.9)
        covered[name] = np.mean((lower <= y) & (y <= upper))
    assert covered["pair"] > 0.93
    assert covered["all"] == pytest.approx(0.9, abs=0.015)


def test_no_more_members_change_nothing():
    y, found = predictions(200)
    pair = normal(found[:2].mean(axis=0))
    scores = [
        interval_scores(v, y)[:, 0] for v in (pair, *map(normal, found[:2]))
    ]
    plain = ConformalIntervals(trust=1.0).fit_distribution(pair, y)
    same = calibrated_intervals(scores, 2)
    np.testing.assert_allclose(
        same.scores_.values, plain.scores_.values, rtol=1e-6
    )
    # Each row has one member that did not train on it.
    one = calibrated_intervals(scores[:1], MEMBERS)
    np.testing.assert_array_equal(one.scores_.values, plain.scores_.values)
