"""Prediction sets of classifiers have their coverage."""

import keras
import numpy as np
import pytest
from scipy import stats

import keras_likelihood as kl
from keras_likelihood.conformal import ConformalSets
from keras_likelihood.conformal.conformal_sets import class_scores
from tests import kinds

pytestmark = pytest.mark.usefixtures("step_by_step")

SCORES = ["aps", "raps", "lac"]


def draw(rng, rows, classes=5, sharp=1.5):
    """Labels, and logits of an overconfident model."""
    logits = rng.normal(size=(rows, classes)) * 2
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    y = (rng.uniform(size=(rows, 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    return sharp * logits, np.minimum(y, classes - 1)


@pytest.mark.parametrize("score", SCORES)
def test_coverage_over_many_calibration_sets(score, rng):
    sets, calibration, size, coverage = 150, 49, 40, 0.8
    hits = 0
    for _ in range(sets):
        logits, y = draw(rng, calibration + size)
        fitted = ConformalSets(score=score).fit_arrays(
            logits[:calibration], y[:calibration]
        )
        chosen = fitted.predict_set_arrays(logits[calibration:], coverage)
        hits += chosen[np.arange(size), y[calibration:]].sum()
    # Each set holds a beta-binomial number of labels; their sum is normal.
    hits_of_one = stats.betabinom(size, 40, 10)
    gap = hits - sets * hits_of_one.mean()
    spread = 4.9 * hits_of_one.std() * np.sqrt(sets)
    # Except with "lac", all most probable classes have the same score.
    assert gap > -spread and (gap < spread or score != "lac")


def test_ties_keep_at_least_the_coverage(rng):
    """Four repeated inputs have four scores."""
    logits, _ = draw(rng, 4)
    held = []
    for _ in range(200):
        rows = rng.integers(4, size=60)
        p = np.exp(logits[rows]) / np.exp(logits[rows]).sum(1, keepdims=True)
        y = (rng.uniform(size=(60, 1)) > np.cumsum(p, axis=1)).sum(axis=1)
        y = np.minimum(y, 4)
        fitted = ConformalSets().fit_arrays(logits[rows[:30]], y[:30])
        chosen = fitted.predict_set_arrays(logits[rows[30:]], 0.9)
        held.append(chosen[np.arange(30), y[30:]].mean())
    assert np.mean(held) > 0.9 - 4.9 * np.std(held) / np.sqrt(200)


def test_scores_by_hand():
    p = np.array([[0.2, 0.5, 0.3]])
    found = class_scores(p, "aps")
    np.testing.assert_allclose(found, [[-0.2, -1.0, -0.5]], atol=1e-12)
    even = np.array([[0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.05]])
    added = class_scores(even, "raps") - class_scores(even, "aps")
    expected = [[0, 0, 0, 0, 0, 0.01, 0.02]]
    np.testing.assert_allclose(added, expected, atol=1e-12)
    np.testing.assert_allclose(class_scores(p, "lac"), -np.log(p))
    # Scores distinguish classes whose sum is one in float64.
    sure = np.array([[1.0, 1e-20, 1e-25, 0.0]])
    assert (np.diff(class_scores(sure, "aps")[0][:3]) > 0).all()


@pytest.mark.parametrize("score", SCORES)
def test_sets_are_never_empty(score, rng):
    logits, y = draw(rng, 200, sharp=1.0)
    easy = 6 * np.eye(5)[y] + logits
    fitted = ConformalSets(score=score).fit_arrays(easy, y)
    sets = fitted.predict_set_arrays(easy, 0.5)
    assert (sets.sum(axis=1) == 1).all()


def test_groups_and_classes(rng):
    logits, y = draw(rng, 900)
    logits[y == 2, 2] -= 4.0  # a class that the model overlooks
    half = slice(None, 600)
    of_class = {}
    for groups in (None, "class"):
        fitted = ConformalSets().fit_arrays(
            logits[half], y[half], groups=groups
        )
        sets = fitted.predict_set_arrays(logits[600:], 0.9)
        right = sets[np.arange(300), y[600:]]
        of_class[groups] = right[y[600:] == 2].mean()
    assert of_class[None] < 0.75 < of_class["class"]
    with pytest.raises(ValueError, match="are the classes"):
        fitted.predict_set_arrays(logits[:1], 0.9, groups=["a"])
    with pytest.raises(ValueError, match="at least 999"):
        fitted.predict_set_arrays(logits[:1], 0.999)
    names = np.where(np.arange(600) % 2, "odd", "even")
    fitted = ConformalSets().fit_arrays(logits[half], y[half], groups=names)
    with pytest.raises(ValueError, match=r"'even', 'odd'.*\['third'\]"):
        fitted.predict_set_arrays(logits[:1], 0.9, groups=["third"])
    assert fitted.predict_set_arrays(logits[:2], groups=["odd", "even"]).any()


def test_dense_predictions_and_questions(rng):
    logits = rng.normal(size=(40, 2, 3, 4))
    y = rng.integers(4, size=(40, 2, 3))
    fitted = ConformalSets(score="lac").fit_arrays(logits, y)
    sets = fitted.predict_set_arrays(logits, 0.8)
    held = np.take_along_axis(sets, y[..., None], axis=-1).mean(axis=0)
    assert sets.shape == logits.shape and (held >= 0.8).all()
    yes = rng.normal(size=40)
    fitted = ConformalSets().fit_arrays(yes, yes > rng.normal(size=40))
    assert fitted.predict_set_arrays(yes, 0.8).shape == (40, 2)


def test_bad_input_is_refused(rng):
    logits, y = draw(rng, 20)
    with pytest.raises(ValueError, match="'aps', 'raps', 'lac'"):
        ConformalSets(score="best")
    with pytest.raises(ValueError, match="finite"):
        ConformalSets().fit_arrays(np.where(logits > 1, np.nan, logits), y)
    with pytest.raises(ValueError, match="before `predict_set_arrays`"):
        ConformalSets().predict_set_arrays(logits)
    with pytest.raises(ValueError, match="without `model`, which `fit` sets"):
        ConformalSets().fit_arrays(logits, y).predict_set(logits)


def test_recalibrated_model_keeps_its_sets_in_its_file(tmp_path):
    x, y = kinds.data(rows=288)
    groups = (x[:, 0] > 0).astype(int)
    scaled = kl.recalibration.GlobalScaling().fit(
        kinds.make("functional"), x[:96], y[:96]
    )
    fitted = ConformalSets(score="raps").fit(
        scaled.model, x[96:192], y[96:192], groups=groups[96:192]
    )
    assert fitted.report_["examples"] == 96
    fitted.model.save(tmp_path / "conformal.keras")
    loaded = keras.saving.load_model(tmp_path / "conformal.keras")
    rest = x[192:]
    given = {"groups": groups[192:]}
    sets = loaded.predict_set(rest, 0.8, **given)
    again = fitted.predict_set(rest, 0.8, **given)
    np.testing.assert_array_equal(sets, again)
    probabilities = scaled.model.predict(rest, verbose=0)
    arrays = fitted.predict_set_arrays(
        probabilities, 0.8, from_logits=False, **given
    )
    assert np.mean(arrays == sets) > 0.99
    assert sets[np.arange(96), y[192:]].mean() > 0.7
    np.testing.assert_allclose(
        loaded.predict(rest, verbose=0), probabilities, atol=1e-6
    )


@pytest.mark.few(0)
def test_a_conformal_model_is_calibrated_again():
    """The last calibration is used."""
    x, y = kinds.data()
    model = kinds.make("functional")
    first = ConformalSets(score="lac").fit(model, x, (y + 1) % 3)
    again = ConformalSets().fit(first.model, x, y)
    expected = ConformalSets().fit(model, x, y).predict_set(x, 0.8)
    np.testing.assert_array_equal(again.predict_set(x, 0.8), expected)


def test_model_of_one_question(rng):
    x, y = kinds.data()
    model = kinds.make("functional", units=1, activation="sigmoid")
    fitted = ConformalSets().fit(model, x, y > 0)
    assert fitted.predict_set(x, 0.8).shape == (128, 2)
    several = kinds.make("functional", units=2, activation="sigmoid")
    with pytest.raises(ValueError, match="mutually exclusive classes"):
        ConformalSets().fit(several, x, np.stack([y, y], axis=1) > 0)


@pytest.mark.few(0)
@pytest.mark.parametrize("score", ["aps", "raps", "lac"])
@pytest.mark.parametrize("units", [1, 3])
def test_sets_of_one_coverage_are_a_model_of_their_own(score, units, tmp_path):
    """An exported model contains the calibration."""
    x, y = kinds.data()
    y = y if units > 1 else (y > 0).astype(int)
    ending = "softmax" if units > 1 else "sigmoid"
    model = kinds.make("functional", units, ending)
    for groups in (None, "class"):
        fitted = ConformalSets(score=score).fit(model, x, y, groups=groups)
        expected = fitted.predict_set(x, 0.8)
        fixed = fitted.model.at_coverage(0.8)
        fixed.save(tmp_path / "fixed.keras")
        for one in (fixed, keras.saving.load_model(tmp_path / "fixed.keras")):
            found = one.predict(x, verbose=0)
            np.testing.assert_array_equal(found["set"], expected)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        fixed.export(str(tmp_path / "served"), verbose=False)
        loaded = tf.saved_model.load(str(tmp_path / "served"))
        served = loaded.serve(x)
        np.testing.assert_array_equal(served["set"], expected)


def test_sets_by_class_of_a_model_with_a_plain_vector():
    x, y = kinds.data()
    inputs = keras.Input(x.shape[1:])
    answer = keras.layers.Dense(1, "sigmoid")(inputs)
    model = keras.Model(inputs, keras.layers.Reshape(())(answer))
    fitted = ConformalSets().fit(model, x, (y > 0).astype(int), groups="class")
    found = fitted.model.at_coverage(0.8).predict(x, verbose=0)
    np.testing.assert_array_equal(found["set"], fitted.predict_set(x, 0.8))
