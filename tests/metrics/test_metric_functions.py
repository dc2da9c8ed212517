"""The NumPy metrics against slow loops and SciPy."""

import numpy as np
import pytest

from keras_likelihood.metrics import functions


def draw(rows=400, classes=4, seed=0):
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.ones(classes), rows)
    y = np.array(
        [
            random.choice(classes, p=q)
            for q in p**0.5 / np.sum(p**0.5, axis=1, keepdims=True)
        ]
    )
    return y, p


def loop_ece(right, confidence, bins):
    total = 0.0
    for b in range(bins):
        low, high = b / bins, (b + 1) / bins
        last = b == bins - 1
        inside = (confidence >= low) & ((confidence < high) | last)
        if inside.any():
            gap = right[inside].mean() - confidence[inside].mean()
            total += inside.mean() * abs(gap)
    return total


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_ece_equals_a_loop_over_bins(bins):
    y, p = draw()
    expected = loop_ece(p.argmax(1) == y, p.max(1), bins)
    found = functions.expected_calibration_error(y, p, bins=bins)
    assert found == pytest.approx(expected, abs=1e-12)


SCORES = (
    functions.expected_calibration_error,
    functions.negative_log_likelihood,
)


def test_weight_two_equals_the_row_twice():
    y, p = draw(rows=50)
    weight = np.where(np.arange(50) < 20, 2.0, 1.0)
    twice = np.concatenate([np.arange(50), np.arange(20)])
    for metric in SCORES:
        weighted = metric(y, p, sample_weight=weight)
        assert weighted == pytest.approx(metric(y[twice], p[twice]))


def test_binary_column_means_two_classes():
    y, p = draw(classes=2)
    for metric in SCORES:
        assert metric(y, p[:, 1]) == pytest.approx(metric(y, p))


def test_calibration_error_equals_a_loop():
    values = np.random.default_rng(0).beta(2, 2, 333)
    total = 0.0
    for j in range(1, 20):
        total += (j / 20 - np.mean(values <= j / 20)) ** 2
    assert functions.calibration_error(values) == pytest.approx(total)
    with pytest.raises(ValueError, match="Received: values from -0.1"):
        functions.calibration_error([-0.1, 0.5])


def test_interval_coverage_counts():
    values = np.linspace(0.005, 0.995, 100)
    assert functions.interval_coverage(values, 0.8) == pytest.approx(0.8)


def test_wrong_shapes_are_errors():
    y, p = draw()
    with pytest.raises(ValueError, match="Received: "):
        functions.expected_calibration_error(y[:5], p)


@pytest.mark.parametrize("label", [-1, 2, 0.5])
def test_labels_that_are_not_classes_are_refused(label):
    p = [[0.2, 0.8], [0.7, 0.3]]
    for score in SCORES:
        with pytest.raises(ValueError, match=rf"0 to 1. Received: \[{label}\]"):
            score(np.array([label, 1]), p)
