"""Recalibrated models of every kind are independent copies."""

import keras
import numpy as np
import pytest
from scipy.special import expit

import keras_likelihood as kl
from keras_likelihood import recalibration
from keras_likelihood.recalibration import GlobalScaling, regression
from tests import kinds

pytestmark = pytest.mark.usefixtures("step_by_step")


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", kinds.KINDS)
def test_every_shape_gives_the_calibration_of_its_arrays(kind, tmp_path):
    x, y = kinds.data()
    method, told = recalibration.LinearFeatureScaling(), {}
    features = kinds.hidden_of(x)
    if kind == "subclassed":
        method = recalibration.AutoScaling(keep_accuracy=True)
        features, told = None, {"from_logits": False}
    fitted = method.fit(kinds.make(kind), x, y, **told)
    found = fitted.model.predict(x, verbose=0)
    np.testing.assert_allclose(
        found, fitted.calibrate(kinds.logits_of(x), features), atol=2e-3
    )
    if kind in ("twice_nested", "subclassed"):
        fitted.model.save(tmp_path / "calibrated.keras")
        loaded = keras.models.load_model(tmp_path / "calibrated.keras")
        again = loaded.predict(x, verbose=0)
        np.testing.assert_allclose(again, found, atol=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["nested", "subclassed"])
def test_training_the_result_leaves_the_original_as_it_was(kind):
    x, y = kinds.data()
    model = kinds.make(kind)
    before = model.get_weights()
    fitted = recalibration.LinearScaling().fit(model, x, y, from_logits=False)
    # The kernel and the bias of the temperature are new.
    assert len(fitted.model.trainable_variables) == 2
    for layer in fitted.model.layers:
        layer.trainable = True
    assert len(fitted.model.trainable_variables) == 6
    fitted.model.compile(
        keras.optimizers.SGD(0.5), loss="sparse_categorical_crossentropy"
    )
    fitted.model.fit(x, y, verbose=0)
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert all(v.trainable for v in model.weights)
    moved = [
        not np.array_equal(w, v)
        for v in fitted.model.get_weights()
        for w in before
        if w.shape == v.shape
    ]
    assert any(moved)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["GlobalScaling", "LinearFeatureScaling"])
def test_independent_questions_are_recalibrated_one_by_one(name, tmp_path):
    x, _ = kinds.data(192)
    logits = kinds.logits_of(x, 2)
    random = np.random.default_rng(0)
    # The first label is overconfident, the second is underconfident.
    wanted = logits * [0.3, 3.0]
    y = (random.random(logits.shape) < expit(wanted)).astype("int64")
    assert y.sum(axis=1).max() == 2
    method = getattr(recalibration, name)
    fitted = method().fit(kinds.make("functional", 2, "sigmoid"), x, y)
    features = kinds.hidden_of(x)
    p = fitted.model.predict(x, verbose=0)
    assert p.shape == y.shape
    np.testing.assert_allclose(p, fitted.calibrate(logits, features), atol=2e-3)
    for c, question in enumerate(fitted.questions_):
        alone = method().fit_arrays(logits[:, c], y[:, c], features)
        np.testing.assert_allclose(
            question.calibrate(logits[:, c], features),
            alone.calibrate(logits[:, c], features),
            atol=2e-3,
        )
    if name == "GlobalScaling":
        first, second = (q.parameters_ for q in fitted.questions_)
        assert first["temperature"] > 1 > second["temperature"]
    assert fitted.report_["nll_after"] <= fitted.report_["nll_before"]
    fitted.model.save(tmp_path / "calibrated.keras")
    loaded = keras.models.load_model(tmp_path / "calibrated.keras")
    np.testing.assert_allclose(loaded.predict(x, verbose=0), p, atol=1e-6)


def test_questions_need_labels_of_their_shape():
    x, y = kinds.data()
    with pytest.raises(ValueError, match="0 or 1 in the shape"):
        GlobalScaling().fit(kinds.make("functional", 3, "sigmoid"), x, y)
    with pytest.raises(ValueError, match=r"from 0 to 1. Received: \[2\]"):
        GlobalScaling().fit_arrays(
            np.ones((4, 2)), np.full((4, 2), 2), multi_label=True
        )


@pytest.mark.few(1)
@pytest.mark.parametrize("activation", ["sigmoid", "linear"])
def test_plain_vectors_stay_vectors(activation):
    x, y = kinds.data()
    y = (y > 0).astype(int)
    given = keras.Input((5,))
    column = keras.layers.Dense(1, activation=activation)(given)
    model = keras.Model(given, keras.layers.Reshape(())(column))
    assert model.predict(x, verbose=0).shape == (128,)
    found = []
    for one in (model, keras.Model(given, column)):
        fitted = recalibration.LinearFeatureScaling().fit(one, x, y)
        found.append(fitted.model.predict(x, verbose=0))
    assert found[0].shape == (128,)
    np.testing.assert_allclose(found[0], found[1][:, 0], atol=1e-5)


@pytest.mark.few(0)
def test_weights_in_batches_of_a_regressor():
    x, y = kinds.data()
    y = y + 0.1 * np.random.default_rng(0).standard_normal(len(y))
    weight = np.where(np.arange(128) < 64, 1.0, 0.2)
    y[64:] *= 5
    model = kinds.make("functional", 1, "linear")
    batches = [
        (x[i : i + 50], y[i : i + 50], weight[i : i + 50])
        for i in range(0, 128, 50)
    ]
    for method in (regression.GlobalRescaling, regression.LinearRescaling):
        found = method().fit(model, batches)
        expected = method().fit(model, x, y, sample_weight=weight)
        plain = method().fit(model, x, y)
        after = found.report_["nll_after"]
        assert after == pytest.approx(expected.report_["nll_after"], rel=1e-5)
        assert after != pytest.approx(plain.report_["nll_after"], rel=1e-3)


def test_a_learned_scale_of_the_loss_is_the_scale_before():
    x, y = kinds.data()
    model = kl.LikelihoodModel.from_model(kinds.make("functional", 1, "linear"))
    scale = kl.layers.GlobalParameter(initial=7.0)
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=scale))
    y = y + 0.5
    law = model.predict_distribution(x, verbose=0)
    nll = keras.ops.convert_to_numpy(law.nll(y[:, None].astype("float32")))
    fitted = regression.GlobalRescaling().fit(model, x, y)
    assert fitted.report_["nll_before"] == pytest.approx(nll.mean(), rel=1e-4)
    found = fitted.model.predict(x, verbose=0)
    p = fitted.parameters_
    scale = 7 * p["relative_scale"] * p["factor"]
    np.testing.assert_allclose(found[-1], scale, rtol=1e-4)


@pytest.mark.few(0)
def test_outputs_stay_float32_under_mixed_precision(mixed_precision, tmp_path):
    x, y = kinds.data(64)
    for ending in ("softmax", "sigmoid"):
        model = kinds.make("functional", 3, ending)
        labels = y if ending == "softmax" else np.eye(3, dtype=int)[y]
        assert model.predict(x[:2], verbose=0).dtype != np.float32
        fitted = recalibration.LinearFeatureScaling().fit(model, x, labels)
        assert keras.config.dtype_policy().name == mixed_precision
        p = fitted.model.predict(x, verbose=0)
        assert p.dtype == np.float32
    fitted.model.save(tmp_path / "calibrated.keras")
    loaded = keras.models.load_model(tmp_path / "calibrated.keras")
    assert loaded.predict(x, verbose=0).dtype == np.float32
    model = kinds.make("functional", 3, "linear")
    fitted = GlobalScaling().fit(model, x, y, from_logits=True)
    expected = fitted.calibrate(np.float32(model.predict(x, verbose=0)))
    found = fitted.model.predict(x, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    model = kinds.make("functional", 1, "linear")
    for method in (regression.GlobalRescaling, regression.LinearRescaling):
        found = method().fit(model, x, y + 0.5).model.predict(x, verbose=0)
        assert all(part.dtype == np.float32 for part in found)


def test_bernoulli_models_ask_questions():
    x, _ = kinds.data()
    model = kl.LikelihoodModel.from_model(kinds.make("functional", 2, "linear"))
    model.compile("sgd", loss=kl.losses.BernoulliLoss(temperature=2.0))
    y = (kinds.logits_of(x, 2) > 0.5).astype("int64")
    fitted = GlobalScaling().fit(model, x, y)
    assert len(fitted.questions_) == 2
    half = GlobalScaling().fit_arrays(
        kinds.logits_of(x, 2) / 2, y, multi_label=True
    )
    assert fitted.report_["nll_before"] == pytest.approx(
        half.report_["nll_before"], rel=1e-4
    )
