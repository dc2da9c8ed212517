"""Training with a memory on labels of which some are wrong."""

import re

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood.auditing.report import true_class_probabilities
from keras_likelihood.data_parameters.sparse_rms_prop import SparseSGD
from keras_likelihood.likelihoods import NoisyLabels, Softmax
from tests.contracts import as_numpy


def softmax(z):
    p = np.exp(z - z.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def test_rewards_agreement_with_the_memory(rng):
    z = rng.normal(size=(5, 4)).astype("float32")
    y = np.array([0, 3, 2, 2, 1])
    memory = 0.9 * rng.dirichlet(np.ones(4), 5).astype("float32")
    p = softmax(z.astype("float64"))
    after = 0.7 * memory + 0.3 * p
    expected = -np.log(p[np.arange(5), y])
    expected += 3 * np.log(1 - (p * after).sum(axis=1))
    for labels in (y, y[:, None], np.eye(4)[y]):
        found = NoisyLabels(z, memory=memory).nll(labels)
        np.testing.assert_allclose(as_numpy(found), expected, rtol=1e-4)
    alone, plain = NoisyLabels(z).nll(y), Softmax(z).nll(y)
    np.testing.assert_allclose(as_numpy(alone), as_numpy(plain), rtol=1e-6)


def test_rows_are_running_means(rng):
    rule = SparseSGD(0.3)
    rows = rng.normal(size=(6, 1, 3)).astype("float32")
    index = np.array([4, 1, 4, 0], "int32")
    aims = rng.normal(size=(4, 3)).astype("float32")
    state, refused = rule.step(
        ops.convert_to_tensor(rows[index]),
        ops.convert_to_tensor((rows[index][:, 0] - aims) / 4),
        ops.convert_to_tensor(index),
        ops.convert_to_tensor(np.array([True, True, True, False])),
    )
    expected = rows[index].copy()
    expected[[0, 2], 0] += 0.3 * (aims[[0, 2]].mean(axis=0) - rows[4, 0])
    expected[1, 0] += 0.3 * (aims[1] - rows[1, 0])
    np.testing.assert_allclose(as_numpy(state), expected, rtol=1e-5, atol=1e-6)
    assert not as_numpy(refused).any()


def test_refuses_a_rate_beyond_one():
    with pytest.raises(ValueError, match="must be in .* for a running mean"):
        kl.losses.NoisyLabelsLoss(kl.DataParameter(5, learning_rate=2.0))


@pytest.mark.parametrize("memory", [0.5, "global", None])
def test_refuses_a_memory_that_is_none(memory):
    with pytest.raises(ValueError, match="`memory` must be a `DataParameter`"):
        kl.losses.NoisyLabelsLoss(memory)


def test_refuses_one_memory_for_a_sequence():
    inputs = keras.Input((7, 2))
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(3)(inputs))
    loss = kl.losses.NoisyLabelsLoss(kl.DataParameter(5))
    with pytest.raises(ValueError, match="With several labels per example"):
        model.compile("sgd", loss=loss)


def points(rng, n=240, share=0.3):
    """Three clusters, with a share of the labels moved to the next one."""
    truth = np.arange(n) % 3
    x = 4.0 * np.eye(3)[truth] + rng.normal(size=(n, 3))
    moved = rng.random(n) < share
    return x.astype("float32"), np.where(moved, (truth + 1) % 3, truth), truth


def classifier(loss, rate, seed=0):
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((3,))
    h = keras.layers.Dense(64, activation="relu")(inputs)
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(3)(h))
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    return model


def test_remembers_predictions_and_keeps_them_in_the_file(rng, tmp_path):
    x, y, _ = points(rng, 30)
    memory = kl.DataParameter(len(x))
    model = classifier(kl.losses.NoisyLabelsLoss(memory), 1e-12)
    p = softmax(model.predict(x, verbose=0))
    targets = kl.indexed(y)
    model.fit(x, targets, batch_size=10, epochs=2, verbose=0)
    np.testing.assert_allclose(memory.values(), 0.51 * p, rtol=1e-3)
    nll = -np.log(p[np.arange(30), y]).mean()
    assert model.evaluate(x, y, verbose=0) == pytest.approx(nll, rel=1e-4)
    assert model.evaluate(x, targets, verbose=0) < nll
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    kept = again.data_parameters["memory"]
    np.testing.assert_allclose(kept.values(), memory.values(), rtol=1e-6)
    assert again.loss.get_config() == model.loss.get_config()
    distribution = again.predict_distribution(x[:4])
    np.testing.assert_allclose(as_numpy(distribution.mean()), p[:4], rtol=1e-4)


@pytest.mark.few(0)
def test_survives_wrong_labels_and_finds_them(rng):
    x, y, truth = points(rng)
    new, _, new_truth = points(rng)

    def accuracy(model):
        found = model.predict(new, verbose=0).argmax(axis=1)
        return np.mean(found == new_truth)

    memory = kl.DataParameter(len(x))
    model = classifier(kl.losses.NoisyLabelsLoss(memory), 0.03)
    model.fit(x, kl.indexed(y), batch_size=60, epochs=60, verbose=0)
    assert accuracy(model) > 0.9
    report = kl.audit(model, x, y, None)
    wrong = y != truth
    suspects = report.suspects()
    assert wrong[suspects].mean() > 0.8
    assert abs(len(suspects) - wrong.sum()) < 0.2 * wrong.sum()
    assert wrong[report.ranked()[: wrong.sum()]].mean() > 0.8
    assert "expected to be wrong" in report.rule
    sure, overlapping = re.findall(
        r"([\d,]+) (?:of the|if classes)", report.rule
    )
    assert 0 < int(overlapping) <= int(sure)
    given = kl.audit(model, x, y, None, data_parameter=memory)
    np.testing.assert_array_equal(given.scores, report.scores)
    # The memory does not apply to other data.
    assert kl.audit(model, new[:99], new_truth[:99], None).score_name != (
        report.score_name
    )


def test_a_memory_taken_at_its_word_excuses_classes_that_overlap(rng):
    """Labels drawn from the memory itself are all right."""
    p = rng.random(4000)
    y = (rng.random(4000) < p).astype(int)
    memory = np.stack([1 - p, p], axis=1)
    rows = np.arange(len(y))
    right = true_class_probabilities(y, memory, power=1.0)[rows, y]
    assert (1 - right).mean() < 0.02
    doubted = true_class_probabilities(y, memory)[rows, y]
    assert (1 - doubted).mean() > 0.05


def test_true_classes_follow_bayes_rule(rng):
    truth = rng.integers(0, 4, 3000)
    moved = rng.random(3000) < 0.25
    y = np.where(moved, (truth + 1) % 4, truth)
    shown = np.where(rng.random(3000) < 0.98, truth, rng.integers(0, 4, 3000))
    memory = 0.02 + 0.92 * np.eye(4)[shown]
    found = true_class_probabilities(y, memory)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    right = found[np.arange(3000), y]
    assert abs((1 - right).sum() - moved.sum()) < 0.1 * moved.sum()
    assert np.mean(moved[right < 0.5]) > 0.85
    # Without a memory, every label counts as given.
    blank = true_class_probabilities(y, np.zeros((3000, 4)))
    assert (blank.argmax(axis=1) == y).all()
