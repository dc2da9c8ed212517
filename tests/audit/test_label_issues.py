"""Confident learning against a slow loop over its definition."""

import numpy as np
import pytest

from keras_likelihood.auditing import find_label_issues

pytestmark = pytest.mark.one_backend


def noisy_labels(rng, n=300, classes=4):
    truth = rng.integers(0, classes, n)
    z = rng.normal(size=(n, classes))
    z[np.arange(n), truth] += 2.5
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    wrong = rng.random(n) < 0.2
    return np.where(wrong, (truth + 1) % classes, truth), p, wrong


def slow_issues(y, p):
    """The definition, one example at a time."""
    classes = range(p.shape[1])
    threshold = [np.mean(p[y == j, j]) for j in classes]
    issues = []
    for i, row in enumerate(p):
        confident = [j for j in classes if row[j] >= threshold[j]]
        best = max(confident, key=lambda j: row[j], default=y[i])
        issues.append(best != y[i] and max(row) != row[y[i]])
    return issues


def test_same_as_the_definition(rng):
    y, p, _ = noisy_labels(rng)
    issues = slow_issues(y, p)
    found = find_label_issues(y, p)
    np.testing.assert_array_equal(found["is_label_issue"], issues)
    assert 0 < np.sum(issues) < len(y)
    np.testing.assert_allclose(
        found["label_quality"], [p[i, label] for i, label in enumerate(y)]
    )
    np.testing.assert_array_equal(found["predicted_label"], p.argmax(axis=1))
    np.testing.assert_array_equal(found["given_label"], y)


def test_right_labels_are_left_alone():
    y = np.arange(3).repeat(5)
    p = 0.1 + 0.7 * np.eye(3)[y]
    assert not find_label_issues(y, p)["is_label_issue"].any()


def test_nobody_is_confident_of_a_class_without_examples():
    y = np.array([0, 0, 1])
    p = np.array([[0.2, 0.1, 0.7], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1]])
    assert not find_label_issues(y, p)["is_label_issue"].any()


def test_temperature_sets_the_quality(rng):
    y, p, _ = noisy_labels(rng)
    temperature = rng.gamma(2.0, size=len(y))
    found = find_label_issues(y, p, temperature)
    quality = found["label_quality"]
    order = np.argsort(-temperature)
    assert (np.diff(quality[order]) >= 0).all()
    assert quality.min() >= 0 and quality.max() <= 1
    plain = find_label_issues(y, p)["is_label_issue"]
    np.testing.assert_array_equal(found["is_label_issue"], plain)
