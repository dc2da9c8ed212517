"""Recalibration of regressors, on arrays and models."""

import keras
import numpy as np
import pytest
from scipy import stats

import keras_likelihood as kl
from keras_likelihood import layers
from keras_likelihood.reading import read_output
from keras_likelihood.reading.targets import widest
from keras_likelihood.recalibration import regression
from keras_likelihood.recalibration.residual_shape import (
    ResidualShape,
    fit_shape,
)

pytestmark = pytest.mark.usefixtures("step_by_step")

METHODS = [
    regression.GlobalRescaling,
    regression.LinearRescaling,
    regression.DeepRescaling,
]
OWN = {
    "laplace": {},
    "logistic": {},
    "student_t": {"df": 3.0},
    "robust_rho": {"shape": 0.5},
    "huber": {"threshold": 1.3},
}
"""Likelihoods other than normal, with parameters besides the scale."""


def mean_nll(law, y):
    target = keras.ops.convert_to_tensor(y, law.prediction.dtype)
    target = keras.ops.reshape(target, law.prediction.shape)
    return keras.ops.convert_to_numpy(law.nll(target)).mean()


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
    fitted = regression.GlobalRescaling(likelihood="normal").fit_arrays(
        prediction, y, scale=scale
    )
    law = fitted.calibrate(prediction, scale=scale)
    z = (y - prediction) / scale
    factor = np.sqrt(np.mean(z**2))
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
        if method is regression.LinearRescaling:
            kernel = np.abs(fitted.parameters_["network"][0][:, 0])
            assert kernel.argmax() == 1 and kernel.shape == (3,)
        law = fitted.calibrate(test_prediction, features=test_x)
        nll[method.__name__] = mean_nll(law, test_y)
    assert nll["LinearRescaling"] < nll["GlobalRescaling"] - 0.05
    assert nll["DeepRescaling"] < nll["GlobalRescaling"] - 0.05


def test_shape_finds_tails():
    random = np.random.default_rng(0)
    z = 2 * random.standard_t(3, 4000)
    shape = fit_shape(z, np.ones(4000))
    assert shape.likelihood == "student_t"
    df = shape.parameters["df"]
    assert df == pytest.approx(3, rel=0.2)
    assert shape.factor == pytest.approx(2, rel=0.1)
    for one, oracle in (
        (shape, stats.t(df, 0, shape.factor)),
        (ResidualShape("normal", 2.0), stats.norm(0, 2.0)),
    ):
        np.testing.assert_allclose(one.nll(z), -oracle.logpdf(z), rtol=1e-8)
        np.testing.assert_allclose(one.cdf(z), oracle.cdf(z), atol=1e-12)


@pytest.mark.few(1)
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
    scaling = regression.GlobalRescaling()
    with pytest.raises(ValueError, match="must be fitted"):
        scaling.calibrate(prediction)
    with pytest.raises(ValueError, match="must be 20 targets.* Received: 19"):
        scaling.fit_arrays(prediction, y[:19])
    with pytest.raises(ValueError, match="`scale` must be > 0"):
        scaling.fit_arrays(prediction, y, scale=np.zeros(20))
    with pytest.raises(ValueError, match="Received: 'cauchy'"):
        regression.GlobalRescaling(likelihood="cauchy")


def predicted(name, rows=300, wrong=3.0):
    """A distribution whose scale is too small, targets and features."""
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 2))
    scale = np.exp(0.5 * x[:, :1])
    kind = kl.likelihoods.get(name)
    given = {k: np.full((rows, 1), v) for k, v in OWN[name].items()}
    right = kind(widest(0 * scale), scale=widest(scale), **given)
    y = keras.ops.convert_to_numpy(right.quantile(random.random((rows, 1))))
    values = {k: widest(v) for k, v in given.items()}
    law = kind(widest(0 * scale), scale=widest(0 * scale + 1 / wrong), **values)
    return law, y.astype("float64"), x


@pytest.mark.few(1)
@pytest.mark.parametrize("name", OWN)
def test_a_model_is_judged_by_its_own_likelihood(name):
    law, y, x = predicted(name)
    target = keras.ops.convert_to_tensor(y, law.prediction.dtype)
    own = mean_nll(law, y)
    for method in (regression.GlobalRescaling, regression.LinearRescaling):
        fitted = method().fit_distribution(law, y, features=x)
        report = fitted.report_
        assert report["nll_before"] == pytest.approx(own, rel=1e-4)
        cdf = keras.ops.convert_to_numpy(law.cdf(target)).ravel()
        expected = kl.metrics.functions.calibration_error(np.clip(cdf, 0, 1))
        assert report["cal_before"] == pytest.approx(expected, rel=1e-2)
        assert report["nll_after"] < own - 0.1
        after = fitted.calibrate(law, features=x)
        assert type(after) is type(law)
        nll = mean_nll(after, y)
        assert report["nll_after"] == pytest.approx(nll, rel=1e-4)
    # The scale grows with the first feature.
    assert fitted.parameters_["network"][0][0, 0] > 0.2
    if OWN[name]:
        with pytest.raises(
            ValueError, match="a distribution with the .* of every"
        ):
            fitted.calibrate(np.zeros(3), features=x[:3])
    forced = regression.GlobalRescaling(likelihood="normal")
    forced.fit_distribution(law, y)
    assert type(forced.calibrate(law)) is kl.likelihoods.Normal


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["laplace", "robust_rho"])
@pytest.mark.parametrize("method", ["GlobalRescaling", "AutoRescaling"])
def test_models_keep_their_likelihood(name, method, tmp_path):
    _, y, x = predicted(name, 200)
    inputs = keras.Input((2,))
    outputs = layers.LikelihoodHead(name, 1)(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("sgd", loss=kl.losses.LikelihoodLoss(name))
    own = model.predict_distribution(x, verbose=0)
    fitted = getattr(regression, method)().fit(model, x, y)
    assert fitted.report_["nll_before"] == pytest.approx(
        mean_nll(own, y), rel=1e-4
    )
    fitted.model.save(tmp_path / "calibrated.keras")
    loaded = keras.saving.load_model(tmp_path / "calibrated.keras")
    law = loaded.predict_distribution(x)
    assert law.name() == name
    nll = mean_nll(law, y)
    assert fitted.report_["nll_after"] == pytest.approx(nll, rel=1e-3)
    lower, upper = loaded.interval(x, 0.9)
    assert np.mean((lower <= y) & (y <= upper)) == pytest.approx(0.9, abs=0.06)
    reading = read_output(tmp_path / "calibrated.keras", x)
    assert reading.likelihood.name() == name
    # A recalibrated model is recalibrated again, with its own likelihood.
    again = regression.GlobalRescaling().fit(loaded, x, y)
    assert again.report_["nll_before"] == pytest.approx(nll, rel=1e-3)


@pytest.mark.few(2)
@pytest.mark.parametrize("method", [*METHODS, regression.AutoRescaling])
def test_rows_of_weight_zero_are_as_if_absent(method):
    prediction, y, x = draw(200, tails=3)
    weight = np.ones(260)
    weight[200:] = 0
    more = np.full(60, np.nan)
    absent = np.concatenate([y, more])
    fitted = method().fit_arrays(
        np.concatenate([prediction, np.full(60, 100.0)]),
        absent,
        features=np.concatenate([x, np.full((60, 3), 50.0)]),
        sample_weight=weight,
    )
    plain = method().fit_arrays(prediction, y, features=x)
    for name, value in plain.report_.items():
        if name != "seconds":
            assert fitted.report_[name] == pytest.approx(value, rel=1e-9)


@pytest.mark.few(0)
def test_auto_chooses_what_held_out_rows_favour():
    prediction, y, x = draw()
    fitted = regression.AutoRescaling().fit_arrays(prediction, y, features=x)
    scores = fitted.cross_validated_nll_
    assert fitted.method_ == min(scores, key=scores.get) != "GlobalRescaling"
    assert scores["LinearRescaling"] < scores["GlobalRescaling"] - 0.05
    chosen = getattr(regression, fitted.method_)()
    chosen.fit_arrays(prediction, y, features=x)
    assert fitted.report_["nll_after"] == chosen.report_["nll_after"]
    with pytest.raises(ValueError, match="3 folds need"):
        regression.AutoRescaling().fit_arrays(prediction[:2], y[:2])


def test_few_data_do_not_explode():
    prediction, y, _ = draw(40)
    random = np.random.default_rng(0)
    noise = random.standard_normal((540, 20))
    test_prediction, test_y, _ = draw(500, seed=1)
    flat = regression.GlobalRescaling().fit_arrays(prediction, y)
    base = mean_nll(flat.calibrate(test_prediction), test_y)
    for method in METHODS[1:]:
        fitted = method().fit_arrays(prediction, y, features=noise[:40])
        law = fitted.calibrate(test_prediction, features=noise[40:])
        assert mean_nll(law, test_y) < base + 0.3
