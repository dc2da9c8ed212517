"""Calibrates the intervals of an ensemble on rows of its own training."""

import numpy as np

from keras_likelihood.layers.conformal_scores import CalibrationScores
from keras_likelihood.models.conformal import LEVEL, interval_scores
from keras_likelihood.recalibration.regression import Conformal


def calibrated_intervals(by_member, held, y, members: int) -> Conformal:
    """Cross-conformal intervals (Vovk 2015) for the mixture of all members.

    Those that did not train on a row are fewer, so their mixture `held` is less
    accurate. The quantiles of the scores are extrapolated from one member and
    from several to all: `quantile(count) = limit + slope / count`.
    """
    # The trust of a scale has no meaning for a mixture.
    conformal = Conformal(trust=1.0).fit_distribution(held, y)
    count = len(by_member)
    if count > 1:
        one = [_tail(interval_scores(member, y)) for member in by_member]
        one = np.mean(np.sort(one, axis=1), axis=0)
        several = _tail(conformal.scores_.values)
        slope = (one - several) / (1 - 1 / count)
        found = several - slope * (1 / count - 1 / members)
        scores = _score(np.maximum.accumulate(np.maximum(found, 0.0)))
        conformal.scores_ = CalibrationScores.of(scores)
    return conformal


def _tail(score):
    """Scores on a scale that is linear in the target's distance."""
    inner = -np.log1p(-np.minimum(score, LEVEL))
    return inner + np.maximum(score - LEVEL, 0.0)


def _score(tail):
    """The inverse of `_tail`."""
    most = -np.log1p(-LEVEL)
    inner = -np.expm1(-np.minimum(tail, most))
    return inner + np.maximum(tail - most, 0.0)
