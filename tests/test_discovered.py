"""Contracts of every metric, recalibrator, detector and regularizer."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import metrics, outliers, recalibration, regularizers
from keras_likelihood.recalibration import regression
from tests import contracts


def classes_in(module, base):
    """The public classes of a module that users instantiate."""
    found = [getattr(module, name) for name in module.__all__]
    return [
        c
        for c in found
        if isinstance(c, type) and issubclass(c, base) and c is not base
    ]


METRICS = [
    c
    for c in classes_in(metrics, metrics.DistributionMetric)
    if c is not metrics.ClassMetric
]
CLASSIFIERS = classes_in(recalibration, recalibration.ClassifierRecalibrator)
REGRESSORS = classes_in(regression, regression.RegressorRecalibrator)
DETECTORS = [
    c
    for c in classes_in(outliers, outliers.OutlierDetector)
    if c not in (outliers.ScaleDetector, outliers.ScoreDetector)
]
REGULARIZERS = classes_in(regularizers, regularizers.AdaptiveRegularizer)


def each(found):
    return pytest.mark.parametrize("cls", found, ids=lambda c: c.__name__)


def case(cls, rng):
    """An object with non-default settings, with targets and predictions."""
    if issubclass(cls, metrics.ClassMetric):
        p = rng.dirichlet(np.ones(3), size=12).astype("float32")
        return lambda: cls(name="m"), rng.integers(0, 3, 12), p
    y, mean, noise = rng.normal(size=(3, 12, 1)).astype("float32")
    scale = np.exp(noise)
    options = {"name": "m", "likelihood": "normal"}
    return lambda: cls(**options), y, (mean, scale)


@each(METRICS)
def test_metric(cls, rng):
    make, y, y_pred = case(cls, rng)
    contracts.metric_survives_its_config(make(), y, y_pred)
    contracts.metric_counts_weights(make, y, y_pred)
    contracts.metric_streams(make, y, y_pred)


@pytest.fixture
def logits(rng):
    y = rng.integers(0, 3, 240)
    logits = 3.0 * rng.normal(size=(240, 3)) + 3.0 * np.eye(3)[y]
    features = rng.normal(size=(240, 2))
    return {"logits": logits, "y": y, "features": features}


# Vector and matrix scaling derive from `JointScaling`.
@each([c for c in CLASSIFIERS if c is not recalibration.JointScaling])
def test_classifier(cls, logits):
    contracts.recalibrator_is_no_worse(cls, **logits)
    if cls not in (recalibration.AutoScaling, recalibration.DeepScaling):
        # The others split rows at random; a repeated row may be on both sides.
        contracts.recalibrator_counts_weights(cls, **logits)


@each(REGRESSORS)
def test_regressor(cls, rng):
    prediction = rng.normal(size=240)
    y = prediction + 0.3 * rng.normal(size=240)
    arrays = {"prediction": prediction, "y": y}
    contracts.recalibrator_is_no_worse(cls, **arrays)


@pytest.mark.few(1)
@pytest.mark.usefixtures("step_by_step")
@each(DETECTORS)
def test_detector(cls, rng):
    x = rng.normal(size=(60, 3)).astype("float32")
    contracts.detector_keeps_the_contract(
        lambda: cls(steps=5, batch_size=16, random_state=0), x
    )


LAYERS = {
    "dense": lambda r: keras.layers.Dense(2, kernel_regularizer=r),
    "conv": lambda r: keras.layers.Conv1D(2, 2, kernel_regularizer=r),
    "gru": lambda r: keras.layers.GRU(2, kernel_regularizer=r),
}


IN_LAYERS = [(cls, "dense") for cls in REGULARIZERS]
IN_LAYERS += [(regularizers.DRidge, "conv"), (regularizers.MultiLasso, "gru")]


@pytest.mark.few(2)
@pytest.mark.usefixtures("step_by_step")
@pytest.mark.parametrize("cls, layer", IN_LAYERS)
def test_regularizer(cls, layer, rng, tmp_path):
    x = rng.normal(size=(32, 4, 3)).astype("float32")
    contracts.regularizer_trains_in_any_layer(
        lambda: cls(num_examples=32), LAYERS[layer], x, tmp_path / "m.keras"
    )


def test_everything_is_found():
    assert len(METRICS) >= 7 and len(CLASSIFIERS) >= 8
    assert len(REGRESSORS) >= 3 and len(DETECTORS) == 3
    assert len(REGULARIZERS) == 4
    assert kl.metrics is metrics
