"""The Keras metrics against the NumPy functions, batch by batch."""

import keras
import numpy as np
import pytest
from scipy import stats

from keras_likelihood import metrics
from keras_likelihood.metrics import functions


def classes(rows=200, seed=0):
    random = np.random.default_rng(seed)
    logits = random.standard_normal((rows, 4)) * 2
    y = random.integers(0, 4, rows)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return y, logits.astype("float32"), p.astype("float32")


def stream(metric, y, prediction, weight=None):
    for part in (slice(0, 70), slice(70, None)):
        if isinstance(prediction, tuple):
            chunk = tuple(leaf[part] for leaf in prediction)
        else:
            chunk = prediction[part]
        given = None if weight is None else weight[part]
        metric.update_state(y[part], chunk, sample_weight=given)
    return float(metric.result())


def test_nll_of_probabilities_is_that_of_their_logits():
    y, logits, p = classes()
    by_logits = stream(metrics.NegativeLogLikelihood(), y, logits)
    by_p = metrics.NegativeLogLikelihood(from_logits=False)
    assert stream(by_p, y, p) == pytest.approx(by_logits, rel=1e-5)
    assert by_logits == pytest.approx(-np.log(p[range(len(y)), y]).mean())
    again = metrics.NegativeLogLikelihood.from_config(by_p.get_config())
    assert stream(again, y, p) == pytest.approx(by_logits, rel=1e-5)
    binary = metrics.NegativeLogLikelihood("bernoulli", from_logits=False)
    label, share = np.array([[1.0], [0.0]]), np.array([[0.8], [0.3]], "float32")
    binary.update_state(label, share)
    expected = -(np.log(0.8) + np.log(0.7)) / 2
    assert float(binary.result()) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="softmax or .* Received: 'normal'"):
        metrics.NegativeLogLikelihood("normal", from_logits=False)


@pytest.mark.parametrize("from_logits", [False, True])
def test_ece_streams_to_the_same_number(from_logits):
    y, logits, p = classes()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    metric = metrics.ExpectedCalibrationError(from_logits=from_logits)
    found = stream(metric, y, logits if from_logits else p, weight)
    expected = functions.expected_calibration_error(y, p, sample_weight=weight)
    assert found == pytest.approx(expected, abs=1e-5)
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_one_hot_and_binary_targets():
    y, _, p = classes()
    one_hot = np.eye(4)[y]
    plain = stream(metrics.ExpectedCalibrationError(), y, p)
    assert stream(
        metrics.ExpectedCalibrationError(), one_hot, p
    ) == pytest.approx(plain)
    yes = (y > 1).astype("float32")
    column = p[:, 2:].sum(axis=1, keepdims=True)
    found = stream(metrics.ExpectedCalibrationError(), yes[:, None], column)
    expected = functions.expected_calibration_error(yes, column[:, 0])
    assert found == pytest.approx(expected, abs=1e-5)


def test_brier_streams_to_the_same_number():
    y, logits, p = classes()
    expected = np.mean(np.sum((p - np.eye(4)[y]) ** 2, axis=1))
    assert stream(metrics.BrierScore(), y, p) == pytest.approx(expected, 1e-5)
    found = stream(metrics.BrierScore(from_logits=True), y, logits)
    assert found == pytest.approx(expected, 1e-5)


def regression(seed=0):
    random = np.random.default_rng(seed)
    mean = random.standard_normal((150, 1)).astype("float32")
    scale = random.uniform(0.5, 2, (150, 1)).astype("float32")
    y = mean + 1.5 * scale * random.standard_normal((150, 1))
    return y.astype("float32"), mean, scale


def test_regression_metrics_against_scipy():
    y, mean, scale = regression()
    law = stats.norm(mean, scale)
    found = stream(metrics.NegativeLogLikelihood("normal"), y, (mean, scale))
    assert found == pytest.approx(-law.logpdf(y).mean(), rel=1e-5)
    found = stream(metrics.CalibrationError(), y, (mean, scale))
    expected = functions.calibration_error(law.cdf(y))
    assert found == pytest.approx(expected, rel=1e-4)
    found = stream(metrics.IntervalCoverage(0.8), y, (mean, scale))
    expected = functions.interval_coverage(law.cdf(y), 0.8)
    assert found == pytest.approx(expected, abs=1e-6)
    found = stream(metrics.Sharpness(), y, (mean, scale))
    assert found == pytest.approx(float(scale.mean()), rel=1e-5)


def test_calibration_error_takes_other_likelihoods():
    y, mean, scale = regression()
    metric = metrics.CalibrationError("laplace")
    found = stream(metric, y[:, 0], (mean, scale))
    cdf = stats.laplace.cdf(y, mean, scale)
    assert found == pytest.approx(functions.calibration_error(cdf), rel=1e-3)


def test_softmax_nll_takes_logits():
    y, logits, p = classes()
    found = stream(metrics.NegativeLogLikelihood(), y, logits)
    expected = functions.negative_log_likelihood(y, p)
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "metric",
    [
        metrics.ExpectedCalibrationError(bins=7, from_logits=True, name="e"),
        metrics.BrierScore(from_logits=True, name="b"),
    ],
    ids=lambda m: type(m).__name__,
)
def test_round_trip_keeps_the_output(metric):
    y, logits, _ = classes()
    config = keras.saving.serialize_keras_object(metric)
    copy = keras.saving.deserialize_keras_object(config)
    assert copy.name == metric.name
    assert stream(copy, y, logits) == stream(metric, y, logits) > 0


def test_round_trip_of_likelihood_metrics():
    y, mean, scale = regression()
    for metric in (
        metrics.CalibrationError("laplace", levels=7, scale=2.0),
        metrics.IntervalCoverage(0.5, likelihood="laplace", scale=2.0),
        metrics.NegativeLogLikelihood("laplace", scale=2.0),
    ):
        config = keras.saving.serialize_keras_object(metric)
        copy = keras.saving.deserialize_keras_object(config)
        assert stream(copy, y, mean) == stream(metric, y, mean)


def test_metrics_in_compile():
    y, _, _ = classes(192)
    x = np.random.default_rng(0).standard_normal((192, 3)).astype("float32")
    model = keras.Sequential([keras.layers.Dense(4, activation="softmax")])
    model.compile(
        "sgd",
        "sparse_categorical_crossentropy",
        metrics=[metrics.ExpectedCalibrationError(), metrics.BrierScore()],
    )
    logs = model.fit(x, y, verbose=0).history
    assert 0 <= logs["expected_calibration_error"][0] <= 1
    assert 0 <= logs["brier_score"][0] <= 2
