"""Folds of a cross-validation: random, equal sizes, copies together."""

import numpy as np
import pytest

from keras_likelihood import recalibration
from keras_likelihood.recalibration.inputs import random_folds

pytestmark = pytest.mark.one_backend


def fold_of(rows, more=None, folds=3):
    """The fold of each row. Every row is in exactly one."""
    found = np.full(len(rows), -1)
    for number, held in enumerate(random_folds(rows, more, folds, 0)):
        assert (found[held] == -1).all()
        assert (np.diff(held) > 0).all()
        found[held] = number
    assert (found >= 0).all()
    return found


@pytest.mark.parametrize("with_more", [False, True])
def test_copies_share_a_fold(rng, with_more):
    rows, more = rng.standard_normal((90, 3)), rng.standard_normal((90, 5))
    copies = rng.permutation(np.repeat(np.arange(90), rng.integers(1, 6, 90)))
    found = fold_of(rows[copies], more[copies] if with_more else None)
    for row in range(90):
        assert np.ptp(found[copies == row]) == 0
    assert np.ptp(np.bincount(found)) <= 5


def test_outputs_with_few_values_are_no_copies():
    """Almost all probabilities are 0 or 1, but all folds have equal size."""
    rows = np.repeat([[0.0], [1.0], [0.5]], [170, 100, 30], axis=0)
    found = fold_of(rows)
    np.testing.assert_array_equal(np.bincount(found), [100, 100, 100])
    assert np.ptp(np.bincount(found[:170])) < 30


def test_copies_of_rows_do_not_make_auto_overfit():
    """A copy in another fold would leak the label of a held-out row."""
    random = np.random.default_rng(0)
    logits = random.standard_normal((2150, 10))
    logits[np.arange(2150), random.integers(0, 10, 2150)] += 4
    y = (logits + random.gumbel(size=logits.shape)).argmax(1)
    logits *= 2
    found = []
    for times in (1, 3):
        rows = np.tile(np.arange(150), times)
        auto = recalibration.AutoScaling().fit_arrays(logits[rows], y[rows])
        p = auto.calibrate(logits[150:])[np.arange(2000), y[150:]]
        found.append(-np.log(p).mean())
        matrices = [w for n, w in auto.weights_.items() if "Matrix" in n]
        assert sum(matrices) < 0.2
    assert found[1] < found[0] + 0.03


def test_copies_of_rows_do_not_make_a_network_train_longer():
    """No feature predicts the temperature, so any training is overfitting."""
    random = np.random.default_rng(0)
    logits = 4 * random.standard_normal((60, 4))
    y = (logits / 2 + random.gumbel(size=logits.shape)).argmax(1)
    features = random.standard_normal((60, 20))
    for times in (1, 3):
        rows = np.tile(np.arange(60), times)
        fitted = recalibration.DeepScaling()
        fitted.fit_arrays(logits[rows], y[rows], features[rows])
        assert fitted.parameters_["iterations"] <= 1
