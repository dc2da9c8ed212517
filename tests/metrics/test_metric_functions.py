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
    with pytest.raises(ValueError, match="Received: 'values from -0.1"):
        functions.calibration_error([-0.1, 0.5])


def test_interval_coverage_counts():
    values = np.linspace(0.005, 0.995, 100)
    assert functions.interval_coverage(values, 0.8) == pytest.approx(0.8)


@pytest.fixture
def scored():
    """Outliers with higher scores, many of which are equal."""
    random = np.random.default_rng(0)
    flags = random.random(500) < 0.3
    return flags, np.round(random.normal(size=500) + 1.5 * flags, 1)


def test_outlier_scores_are_judged_as_by_scikit_learn(scored):
    sklearn = pytest.importorskip("sklearn.metrics")
    flags, scores = scored
    found = functions.area_under_roc(flags, scores)
    assert found == pytest.approx(sklearn.roc_auc_score(flags, scores))
    false_rates, recalls, _ = sklearn.roc_curve(
        flags, scores, drop_intermediate=False
    )
    for recall in (0.5, 0.95, 1.0):
        found = functions.false_positive_rate(flags, scores, recall=recall)
        assert found == pytest.approx(false_rates[recalls >= recall].min())


def test_risk_coverage_equals_a_loop_over_orders(scored):
    errors, scores = scored[0].astype(float), scored[1]
    random, areas = np.random.default_rng(1), []
    for _ in range(400):
        # Equal scores in random order.
        order = np.lexsort((random.random(500), scores))
        risks = np.cumsum(errors[order]) / np.arange(1, 501)
        areas.append(np.mean(risks))
    found = functions.risk_coverage_area(errors, scores)
    assert found == pytest.approx(np.mean(areas), abs=2e-3)


@pytest.mark.parametrize("flags, scores", [([0, 0], [1, 2]), ([0, 1], [1])])
def test_scores_are_checked(flags, scores):
    for judge in (functions.area_under_roc, functions.false_positive_rate):
        with pytest.raises(ValueError, match="Received"):
            judge(flags, scores)
    with pytest.raises(ValueError, match="Received"):
        functions.risk_coverage_area([], [])


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
