"""Recalibration of regressors, on arrays and models."""

import keras
import numpy as np
import pytest
from scipy import stats

from keras_likelihood import layers
from keras_likelihood.recalibration import regression
from keras_likelihood.recalibration.regression.residual_shape import (
    ResidualShape,
    fit_shape,
)

pytestmark = pytest.mark.usefixtures("step_by_step")

METHODS = [
    regression.GlobalScaling,
    regression.LinearScaling,
    regression.DeepScaling,
]


def draw(rows=800, tails=None, seed=0):
    """Residuals whose scale grows with the second feature."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, 3))
    noise = (
        random.standard_normal(rows)
        if tails is None
        else random.standard_t(tails, rows)
    )
    y = x[:, 0] + 0.5 * np.exp(0.7 * x[:, 1]) * noise
    return x[:, 0], y, x


def test_global_scale_is_closed_form():
    prediction, y, _ = draw()
    scale = np.random.default_rng(1).uniform(0.5, 2, len(y))
    fitted = regression.GlobalScaling(likelihood="normal").fit_arrays(
        prediction, y, scale=scale
    )
    law = fitted.calibrate(prediction, scale=scale)
    z = (y - prediction) / scale
    shift = fitted.parameters_["shift"]
    factor = np.sqrt(np.mean(z**2))
    if shift:
        factor = z.std()
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(law.scale), scale * factor, rtol=1e-5
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tails", [None, 3])
def test_nll_never_rises_and_cal_falls(method, tails):
    prediction, y, x = draw(tails=tails)
    fitted = method().fit_arrays(
        prediction, y, scale=np.full(len(y), 3.0), features=x
    )
    report = fitted.report_
    assert report["nll_after"] <= report["nll_before"]
    assert report["cal_after"] < 0.2 * report["cal_before"]


def test_predicted_scales_beat_a_global_one_on_new_data():
    prediction, y, x = draw()
    test_prediction, test_y, test_x = draw(seed=1)
    nll = {}
    for method in METHODS:
        fitted = method().fit_arrays(prediction, y, features=x)
        if method is regression.LinearScaling:
            kernel = np.abs(fitted.parameters_["kernel"])
            assert kernel.argmax() == 1 and kernel.shape == (3,)
        law = fitted.calibrate(test_prediction, features=test_x)
        target = keras.ops.convert_to_tensor(test_y, law.prediction.dtype)
        values = keras.ops.convert_to_numpy(law.nll(target))
        nll[method.__name__] = values.mean()
    assert nll["LinearScaling"] < nll["GlobalScaling"] - 0.05
    assert nll["DeepScaling"] < nll["GlobalScaling"] - 0.05


def test_few_data_do_not_explode():
    prediction, y, _ = draw(40)
    random = np.random.default_rng(0)
    noise = random.standard_normal((540, 20))
    test_prediction, test_y, _ = draw(500, seed=1)
    flat = regression.GlobalScaling().fit_arrays(prediction, y)
    flat_law = flat.calibrate(test_prediction)
    target = keras.ops.convert_to_tensor(test_y, flat_law.prediction.dtype)
    base = keras.ops.convert_to_numpy(flat_law.nll(target)).mean()
    for method in METHODS[1:]:
        fitted = method().fit_arrays(prediction, y, features=noise[:40])
        law = fitted.calibrate(test_prediction, features=noise[40:])
        nll = keras.ops.convert_to_numpy(law.nll(target)).mean()
        assert nll < base + 0.3


def test_shape_finds_tails_and_shift():
    random = np.random.default_rng(0)
    ones = np.ones(4000)
    z = 0.5 + 2 * random.standard_t(3, 4000)
    shape = fit_shape(z, ones)
    assert shape.likelihood == "student_t"
    assert shape.df == pytest.approx(3, rel=0.2)
    assert shape.factor == pytest.approx(2, rel=0.1)
    assert shape.shift == pytest.approx(0.5, abs=0.15)
    oracle = stats.t(shape.df, shape.shift, shape.factor)
    np.testing.assert_allclose(shape.nll(z), -oracle.logpdf(z), rtol=1e-8)
    np.testing.assert_allclose(shape.cdf(z), oracle.cdf(z), atol=1e-12)
    normal = ResidualShape("normal", 0.3, 2.0)
    oracle = stats.norm(0.3, 2.0)
    np.testing.assert_allclose(normal.nll(z), -oracle.logpdf(z), rtol=1e-10)
    np.testing.assert_allclose(normal.cdf(z), oracle.cdf(z), atol=1e-12)


def test_isotonic_maps_the_cdf():
    prediction, y, _ = draw(2000)
    fitted = regression.Isotonic().fit_arrays(prediction, y)
    law = fitted.calibrate(prediction)
    cdf = np.sort(law.cdf(y))
    np.testing.assert_allclose(cdf, np.linspace(0, 1, 2000), atol=0.01)
    middle = law.quantile(0.5)
    assert np.mean(y <= middle) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("head", ["point", "scale"])
def test_models_save_and_load(method, head, tmp_path):
    prediction, y, x = draw(320, tails=3)
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4, activation="tanh", name="hidden")(inputs)
    if head == "point":
        outputs = keras.layers.Dense(1)(hidden)
    else:
        outputs = layers.ScaleHead(1)(hidden)
    model = keras.Model(inputs, outputs)
    fitted = method().fit(model, x, y)
    found = fitted.model.predict(x, verbose=0)
    raw = model.predict(x, verbose=0)
    base = {} if head == "point" else {"scale": raw[1]}
    raw = raw if head == "point" else raw[0]
    features = keras.Model(inputs, hidden).predict(x, verbose=0)
    law = fitted.calibrate(raw, features=features, **base)
    expected = [law.prediction, law.scale]
    for one, other in zip((found[0], found[-1]), expected, strict=True):
        other = keras.ops.convert_to_numpy(other)
        np.testing.assert_allclose(one[:, 0], other, rtol=1e-3, atol=1e-4)
    path = tmp_path / "calibrated.keras"
    fitted.model.save(path)
    again = keras.models.load_model(path).predict(x, verbose=0)
    for one, other in zip(again, found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_errors_say_what_was_received():
    prediction, y, _ = draw(20)
    scaling = regression.GlobalScaling()
    with pytest.raises(ValueError, match="must be fitted"):
        scaling.calibrate(prediction)
    with pytest.raises(ValueError, match="Received: 20 and 19"):
        scaling.fit_arrays(prediction, y[:19])
    with pytest.raises(ValueError, match="`scale` must be > 0"):
        scaling.fit_arrays(prediction, y, scale=np.zeros(20))
    with pytest.raises(ValueError, match="Received: 'cauchy'"):
        regression.GlobalScaling(likelihood="cauchy")
