"""The NumPy metrics against slow loops and SciPy."""

import numpy as np
import pytest
from scipy import integrate, stats

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


def test_classwise_ece_is_the_mean_over_classes():
    y, p = draw()
    expected = np.mean([loop_ece(y == c, p[:, c], 15) for c in range(4)])
    found = functions.expected_calibration_error(y, p, classwise=True)
    assert found == pytest.approx(expected, abs=1e-12)


def test_adaptive_bins_hold_equal_numbers():
    y, p = draw(rows=300)
    confidence, right = p.max(1), p.argmax(1) == y
    order = np.argsort(confidence).reshape(10, 30)
    gaps = [abs(right[i].mean() - confidence[i].mean()) for i in order]
    found = functions.expected_calibration_error(
        y, p, bins=10, scheme="adaptive"
    )
    assert found == pytest.approx(np.mean(gaps), abs=0.01)


def test_debiasing_removes_what_chance_adds():
    random = np.random.default_rng(1)
    plain, debiased = [], []
    for _ in range(50):
        confidence = random.uniform(0.5, 1, 200)
        right = random.uniform(size=200) < confidence
        plain.append(functions.binned_error(right, confidence, norm=2))
        debiased.append(
            functions.binned_error(right, confidence, norm=2, debiased=True)
        )
    assert np.mean(debiased) < 0.5 * np.mean(plain)


def test_weight_two_equals_the_row_twice():
    y, p = draw(rows=50)
    weight = np.where(np.arange(50) < 20, 2.0, 1.0)
    twice = np.concatenate([np.arange(50), np.arange(20)])
    for metric in (
        functions.expected_calibration_error,
        functions.brier_score,
        functions.negative_log_likelihood,
    ):
        weighted = metric(y, p, sample_weight=weight)
        assert weighted == pytest.approx(metric(y[twice], p[twice]))


def test_binary_column_means_two_classes():
    y, p = draw(classes=2)
    for metric in (
        functions.expected_calibration_error,
        functions.brier_score,
        functions.negative_log_likelihood,
    ):
        assert metric(y, p[:, 1]) == pytest.approx(metric(y, p))


def test_brier_equals_a_loop():
    y, p = draw(rows=20)
    total = 0.0
    for i in range(20):
        for c in range(4):
            total += (p[i, c] - (y[i] == c)) ** 2
    assert functions.brier_score(y, p) == pytest.approx(total / 20)


def test_calibration_error_equals_a_loop():
    values = np.random.default_rng(0).beta(2, 2, 333)
    total = 0.0
    for j in range(1, 20):
        total += (j / 20 - np.mean(values <= j / 20)) ** 2
    assert functions.calibration_error(values) == pytest.approx(total)
    with pytest.raises(ValueError, match="Received: values from -0.1"):
        functions.calibration_error([-0.1, 0.5])


def test_crps_equals_its_integral():
    y, mean, scale = 0.7, 0.2, 1.3

    def gap(t):
        return (stats.norm.cdf(t, mean, scale) - (t >= y)) ** 2

    below = integrate.quad(gap, -12, y)[0]
    above = integrate.quad(gap, y, 12)[0]
    found = functions.normal_crps([y], [mean], [scale])
    assert found == pytest.approx(below + above, abs=1e-7)


def test_interval_coverage_counts():
    values = np.linspace(0.005, 0.995, 100)
    assert functions.interval_coverage(values, 0.8) == pytest.approx(0.8)


def test_wrong_shapes_and_options_are_errors():
    y, p = draw()
    with pytest.raises(ValueError, match="Received: "):
        functions.expected_calibration_error(y[:5], p)
    with pytest.raises(ValueError, match="scheme"):
        functions.expected_calibration_error(y, p, scheme="equal")
    with pytest.raises(ValueError, match="and 2 if `debiased`. Received: 1"):
        functions.expected_calibration_error(y, p, debiased=True)


@pytest.mark.parametrize("label", [-1, 2, 0.5])
def test_labels_that_are_not_classes_are_refused(label):
    p = [[0.2, 0.8], [0.7, 0.3]]
    for score in (functions.brier_score, functions.negative_log_likelihood):
        with pytest.raises(ValueError, match=rf"0 to 1. Received: \[{label}\]"):
            score(np.array([label, 1]), p)
