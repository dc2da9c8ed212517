"""What cannot be a probability, a scale or a target raises an error."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.metrics import functions
from keras_likelihood.recalibration import GlobalScaling
from keras_likelihood.recalibration.regression import GlobalRescaling
from keras_likelihood.robust import (
    DataScaleRegressor,
    PredictedScaleRegressor,
    RobustPCA,
)

P = np.array([[0.2, 0.8], [0.7, 0.3]])
ON_CLASSES = [
    functions.expected_calibration_error,
    functions.negative_log_likelihood,
]


@pytest.mark.parametrize("metric", ON_CLASSES)
@pytest.mark.parametrize(
    "wrong", [2 * P, P - 1, 10 * P - 5, P * np.nan, P + 1j, P[:0]]
)
def test_probabilities(metric, wrong):
    labels = np.array([1, 0])[: len(wrong)]
    assert np.isfinite(metric([1, 0], P))
    assert np.isfinite(metric([1, 0], P.astype("float16")))
    with pytest.raises(ValueError, match="`probabilities` must.*Received"):
        metric(labels, wrong)


@pytest.mark.parametrize("values", [[], [1.5], [np.nan], [-0.1], [None]])
def test_cdf_values(values):
    for metric in (functions.calibration_error, functions.interval_coverage):
        with pytest.raises(ValueError, match="`cdf_values` must be.*Received"):
            metric(values)


def wrong_targets():
    y = np.arange(60.0) % 7
    objects = np.array(list(y), object)
    objects[3] = None
    nan = np.array(list(y), object)
    nan[3] = float("nan")
    dates = np.datetime64("2020-01-01") + np.arange(60)
    return {"none": objects, "nan": nan, "dates": dates, "complex": y + 1j}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", wrong_targets())
def test_targets(rng, kind):
    x, y = rng.normal(size=(60, 2)), wrong_targets()[kind]
    inputs = keras.Input((2,))
    model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1)(inputs))
    model.compile("sgd", loss=kl.losses.NormalLoss())
    for use in (
        lambda: DataScaleRegressor().fit(x, y),
        lambda: PredictedScaleRegressor().fit(x, y),
        lambda: GlobalRescaling().fit_arrays(x[:, 0], y),
        lambda: kl.diagnose(model, x, y),
        lambda: kl.tabular.Regressor(members=2, epochs=1).fit(x, y),
        lambda: model.fit(x, y, verbose=0),
    ):
        with pytest.raises(ValueError, match="(?i)target|input|y|complex"):
            use()


def test_another_number_of_classes(rng):
    fitted = GlobalScaling().fit_arrays(
        rng.normal(size=(60, 3)), [0, 1, 2] * 20
    )
    with pytest.raises(ValueError, match="must have 3 columns.*Received: 5"):
        fitted.calibrate(rng.normal(size=(4, 5)))
    with pytest.raises(ValueError, match="must be numbers.*complex"):
        fitted.calibrate(rng.normal(size=(4, 3)) + 1j)


@pytest.mark.parametrize("factor", [1e-40, 1e-20, 1e20, 1e60])
def test_units_of_targets_in_tables(rng, factor):
    x, y = rng.normal(size=(60, 2)), factor * rng.normal(size=60)
    with pytest.raises(ValueError, match="targets must be of a size.*Divide"):
        kl.tabular.Regressor(members=2, epochs=1).fit(x, y)


@pytest.mark.parametrize("factor", [1e-60, 1e60])
def test_units_of_columns_in_tables(rng, factor):
    x, y = rng.normal(size=(60, 2)) * [1, factor], rng.normal(size=60)
    fitted = kl.tabular.Regressor(members=2, epochs=1).fit(x, y)
    assert "and clipped: 60 in `1`" in " ".join(fitted.notes_)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e100])
@pytest.mark.parametrize("kind", ["noise", "constant", "zeros", "repeated"])
def test_principal_components_of_any_data(rng, unit, kind):
    x = rng.normal(size=(20, 4))
    if kind != "noise":
        x = {"zeros": 0 * x, "constant": 0 * x + 1}.get(kind, x[:1] + 0 * x)
    fitted = RobustPCA(2).fit(unit * x)
    basis = fitted.components_
    np.testing.assert_allclose(basis @ basis.T, np.eye(2), atol=1e-9)
    assert np.isfinite(fitted.transform(unit * x)).all()
    assert np.isfinite(fitted.scale_).all()
    if kind == "noise":
        plain = RobustPCA(2).fit(x).scale_
        np.testing.assert_allclose(fitted.scale_ / unit, plain, rtol=1e-6)


def test_principal_components_of_few_rows():
    assert np.isfinite(RobustPCA(2).fit(np.ones((3, 50))).components_).all()


@pytest.mark.parametrize("seed", [-1, 2**40])
def test_seeds(rng, seed):
    x, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    options = {"random_state": seed}
    for estimator in (
        RobustPCA(1, **options),
        DataScaleRegressor(**options),
        kl.outliers.PCAScale(steps=1, **options),
        kl.tabular.Regressor(members=2, epochs=1, **options),
    ):
        with pytest.raises(ValueError, match="`random_state` must be"):
            estimator.fit(x, y)
