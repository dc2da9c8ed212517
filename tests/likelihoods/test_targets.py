"""Impossible targets, in compiled code and before it."""

import numpy as np
import pytest
from keras import ops

from keras_likelihood import likelihoods
from tests.autodiff import gradients


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("unit_axis", [False, True])
def test_a_class_that_is_none_scores_nan(dtype, unit_axis):
    logits = np.array([[1.0, 2.0, 3.0]] * 4, "float32")
    y = np.array([-1, 3, 2, 0]).astype(dtype)
    target = y[:, None] if unit_axis else y

    def nll(logits):
        return likelihoods.Softmax(logits).nll(target)

    found = numpy(nll(ops.convert_to_tensor(logits)))
    np.testing.assert_array_equal(np.isnan(found), [True, True, False, False])
    np.testing.assert_allclose(found[2:], [0.4076059, 2.4076059], rtol=1e-5)
    (gradient,) = gradients(nll, logits)
    assert np.all(np.isnan(gradient[:2])) and np.all(np.isfinite(gradient[2:]))


@pytest.mark.parametrize("label", [0.5, np.nan, np.inf, -0.25, 1e12])
def test_a_number_between_classes_scores_nan(label):
    found = likelihoods.Softmax(np.zeros((1, 3), "float32")).nll(
        np.array([label], "float32")
    )
    assert np.isnan(numpy(found)[0])


def test_soft_labels_are_left_alone():
    logits = np.array([[1.0, 2.0, 3.0]], "float32")
    for soft in ([0.2, 0.3, 0.5], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]):
        y = np.array([soft], "float32")
        log_p = logits - np.log(np.exp(logits).sum())
        np.testing.assert_allclose(
            numpy(likelihoods.Softmax(logits).nll(y)),
            -(y * log_p).sum(axis=1),
            rtol=1e-5,
        )


def test_a_share_outside_0_to_1_scores_nan():
    logits = np.array([[1.0, 1.0, 1.0, 1.0, 1.0]], "float32")
    y = np.array([[7.0, -0.1, 0.0, 0.4, np.nan]], "float32")

    def nll(logits):
        return likelihoods.Bernoulli(logits).nll(y)

    found = numpy(nll(ops.convert_to_tensor(logits)))
    bad = [[True, True, False, False, True]]
    np.testing.assert_array_equal(np.isnan(found), bad)
    np.testing.assert_array_equal(np.isnan(gradients(nll, logits)[0]), bad)


@pytest.mark.parametrize(
    "likelihood, y, message",
    [
        ("softmax", np.array([0, 3, -1]), r"0 to 2. Received: \[-1, 3\]"),
        ("softmax", np.array([0.5, 1.0, 2.0]), r"Received: \[0.5\]"),
        ("softmax", np.array([[0.0], [np.nan], [2.0]]), r"Received: \[nan\]"),
        (
            "softmax",
            np.array([[0.5, 0.5, 0.5], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]),
            r"sum to 1. Received: \[0.5\]",
        ),
        (
            "softmax",
            np.array([[1.5, -0.5, 0.0], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]),
            r"Received: \[-0.5\]",
        ),
        ("bernoulli", np.array([[0.0, 1.0, 7.0]] * 3), r"Received: \[7.0\]"),
        ("bernoulli", np.array([[np.nan, 1, 0.0]] * 3), r"Received: \[nan\]"),
        ("normal", np.array([["a", "b", "c"]] * 3), "numbers. Received: dtype"),
    ],
)
def test_impossible_targets_are_refused(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        likelihoods.get(likelihood).check_targets(y, (3, 3))


@pytest.mark.parametrize(
    "likelihood, y",
    [
        ("softmax", np.array([0, 2, 1], "uint8")),
        ("softmax", np.array([[0.0], [2.0], [1.0]], "float32")),
        ("softmax", np.eye(3, dtype="float32")),
        ("softmax", np.eye(3) * 0.9 + 1 / 30),
        ("softmax", np.zeros((0,))),
        ("bernoulli", np.array([[True, False, True]] * 3)),
        ("bernoulli", np.array([[0.0, 1.0, 0.3]] * 3)),
        ("normal", np.array([[1, 2, 3]] * 3)),
    ],
)
def test_possible_targets_are_accepted(likelihood, y):
    likelihoods.get(likelihood).check_targets(y, (None, 3))
