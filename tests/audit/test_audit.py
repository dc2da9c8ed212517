"""Audits of every kind of model."""

import csv

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats

import keras_likelihood as kl
from keras_likelihood.auditing.audit import audit
from tests import kinds

pytestmark = pytest.mark.usefixtures("step_by_step")


def identity(units, activation=None):
    """A model whose logits are its inputs, for the oracles."""
    inputs = keras.Input((units,))
    layer = keras.layers.Dense(
        units,
        use_bias=False,
        kernel_initializer="identity",
        activation=activation,
    )
    return keras.Model(inputs, layer(inputs))


def softmax_case(rng, n=64):
    x = 3 * rng.normal(size=(n, 3)).astype("float32")
    y = x.argmax(axis=1)
    y[:6] = (y[:6] + 1) % 3
    nll = -scipy.special.log_softmax(x.astype("float64"), axis=1)
    return x, y, nll[np.arange(n), y]


@pytest.mark.parametrize("activation", [None, "softmax"])
def test_plain_classifier_scores_by_nll(rng, activation):
    x, y, nll = softmax_case(rng)
    report = audit(identity(3, activation), x, y, None)
    assert report.task == "classification"
    assert report.score_name == "NLL of the given label"
    assert report.path is None
    np.testing.assert_allclose(report.scores, nll, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        report.label_issues["label_quality"], np.exp(-nll), atol=1e-5
    )
    assert set(report.suspects()) <= set(range(6))
    assert report.num_issues >= 3
    one_hot = audit(identity(3, activation), x, np.eye(3)[y], None)
    np.testing.assert_array_equal(one_hot.scores, report.scores)


def test_sigmoid_is_two_classes(rng):
    x = 3 * rng.normal(size=(32, 1)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")
    y[0] = 1 - y[0]
    expected = np.where(y == 1, 1, -1) * x[:, 0].astype("float64")
    for activation in ("sigmoid", None):
        report = audit(
            identity(1, activation), x, y, None, task="classification"
        )
        np.testing.assert_allclose(
            report.scores, np.logaddexp(0, -expected), rtol=1e-3, atol=1e-5
        )
        assert set(report.label_issues["predicted_label"]) == {0, 1}


def test_saved_and_unusual_models(rng, tmp_path):
    x, y, nll = softmax_case(rng)
    identity(3).save(tmp_path / "model.keras")
    report = audit(tmp_path / "model.keras", x, y, None)
    np.testing.assert_allclose(report.scores, nll, rtol=1e-4, atol=1e-5)
    nested = keras.Sequential([keras.Input((3,)), identity(3, "softmax")])
    report = audit(nested, x, y, None)
    np.testing.assert_allclose(report.scores, nll, rtol=1e-4, atol=1e-5)


def test_several_inputs_and_one_entry_outputs(rng, tmp_path):
    x, y, nll = softmax_case(rng)
    parts = {"a": keras.Input((3,), name="a"), "b": keras.Input((3,), name="b")}
    model = keras.Model(parts, {"label": parts["a"] + parts["b"]})
    arrays = {"a": x - 1, "b": np.ones_like(x)}
    page = tmp_path / "new folder" / "audit.html"
    report = audit(model, arrays, y, page, from_logits=True)
    np.testing.assert_allclose(report.scores, nll, rtol=1e-4, atol=1e-5)
    assert page.stat().st_size > 10_000
    with pytest.raises(ValueError, match="`feature_names` needs an array"):
        audit(model, arrays, y, None, feature_names=["a"])


def test_calibrated_model_is_recognised(rng):
    x, y, _ = softmax_case(rng)
    fitted = kl.recalibration.GlobalScaling().fit(identity(3), x, y)
    p = fitted.model.predict(x, verbose=0)
    report = audit(fitted.model, x, y, None)
    np.testing.assert_allclose(
        report.nll, -np.log(p[np.arange(len(y)), y]), rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("compiled", [True, False])
def test_predicted_temperature_is_the_score(rng, compiled):
    x, y, _ = softmax_case(rng)
    inputs = keras.Input((3,))
    head = kl.layers.TemperatureHead(3)
    model = kl.LikelihoodModel(inputs, head(inputs))
    parameter = head.parameter_layers[0]
    parameter.set_weights(
        [rng.normal(size=w.shape) for w in parameter.get_weights()]
    )
    if compiled:
        model.compile("adam", loss=kl.losses.SoftmaxLoss())
    logits, temperature = model.predict(x, verbose=0)
    assert np.ptp(temperature) > 0.1
    report = audit(model, x, y, None)
    assert report.score_name == "predicted temperature"
    np.testing.assert_allclose(report.scores, temperature[:, 0], rtol=1e-5)
    logs = scipy.special.log_softmax(logits / temperature, axis=1)
    np.testing.assert_allclose(
        report.nll, -logs[np.arange(len(y)), y], rtol=1e-4, atol=1e-5
    )


def trained_with_temperatures(x, y):
    temperature = kl.DataParameter(len(x), learning_rate=0.1)
    model = kl.LikelihoodModel.from_model(identity(3))
    model.compile("sgd", loss=kl.losses.SoftmaxLoss(temperature=temperature))
    model.fit(x, kl.indexed(y), callbacks=[temperature], verbose=0, epochs=3)
    return model, temperature


@pytest.mark.few(0)
def test_data_temperatures_are_the_score(rng, tmp_path):
    x, y, _ = softmax_case(rng)
    model, temperature = trained_with_temperatures(x, y)
    values = temperature.values()
    assert np.ptp(values) > 0.1
    model.save(tmp_path / "model.keras")
    for source, given in (
        (model, temperature),
        (model, None),
        (tmp_path / "model.keras", None),
        (identity(3), values),
    ):
        report = audit(source, x, y, None, data_parameter=given)
        assert report.score_name == "learned temperature"
        np.testing.assert_allclose(report.scores, values, rtol=1e-6)
        np.testing.assert_allclose(
            report.label_issues["label_quality"], 1 / (1 + values), rtol=1e-6
        )
    ranks = report.scores[report.suspects()]
    assert len(ranks) > 1 and (np.diff(ranks) <= 0).all()
    other = x[:32], y[:32]
    assert "NLL" in audit(model, *other, None).score_name
    with pytest.raises(
        ValueError, match="a finite value > 0 for each of the 32"
    ):
        audit(model, *other, None, data_parameter=temperature)


def regression_case(rng, n=96):
    x = rng.normal(size=(n, 1)).astype("float32")
    y = x[:, 0] + 0.1 * rng.normal(size=n).astype("float32")
    y[5] += 3
    return x, y


@pytest.mark.parametrize("loss", ["normal", "laplace"])
def test_predicted_scale_and_residuals(rng, loss):
    x, y = regression_case(rng)
    inputs = keras.Input((1,))
    outputs = kl.layers.ScaleHead(1, likelihood=loss)(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.LikelihoodLoss(loss))
    for weight in model.trainable_variables:
        weight.assign(rng.normal(size=weight.shape))
    prediction, scale = (v[:, 0] for v in model.predict(x, verbose=0))
    report = audit(model, x, y, None)
    assert report.task == "regression"
    assert report.score_name == "predicted scale"
    np.testing.assert_allclose(report.scores, scale, rtol=1e-5)
    z = (y - prediction) / scale
    np.testing.assert_allclose(
        report.columns["residual / scale"], z, rtol=1e-3, atol=1e-4
    )
    density = {"normal": scipy.stats.norm, "laplace": scipy.stats.laplace}
    tail = 2 * density[loss].sf(np.abs(z))
    np.testing.assert_allclose(
        report.label_issues["label_quality"], tail, rtol=1e-3, atol=1e-6
    )
    np.testing.assert_array_equal(
        report.label_issues["is_label_issue"], tail * len(y) < 1
    )


def test_plain_regressor_takes_its_scale_from_the_median_error(rng):
    x, y = regression_case(rng)
    report = audit(identity(1), x, y, None)
    residual = y.astype("float64") - x[:, 0]
    scale = 1.482602 * np.median(np.abs(residual))
    nll = -scipy.stats.norm.logpdf(residual, scale=scale)
    np.testing.assert_allclose(report.scores, nll, rtol=1e-3, atol=1e-4)
    assert report.score_name == "NLL of the given target"
    assert report.suspects()[0] == 5
    assert report.num_issues < 5
    perfect = audit(identity(1), x, x, None, task="regression")
    assert perfect.num_issues == 0


def test_several_targets_show_the_worst(rng):
    x = rng.normal(size=(64, 2)).astype("float32")
    y = x + 0.1 * rng.normal(size=x.shape).astype("float32")
    y[3, 1] = 40.0
    report = audit(identity(2), x, y, None)
    assert report.suspects()[0] == 3
    assert report.label_issues["given_label"][3] == 40
    np.testing.assert_allclose(
        report.label_issues["predicted_label"][3], x[3, 1], rtol=1e-6
    )


def test_csv_holds_the_columns_of_cleanlab(rng, tmp_path):
    x, y, _ = softmax_case(rng)
    report = audit(identity(3), x, y, None)
    report.to_csv(tmp_path / "issues.csv")
    with open(tmp_path / "issues.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "index",
        "is_label_issue",
        "label_quality",
        "given_label",
        "predicted_label",
        "score",
    ]
    assert [int(r["index"]) for r in rows] == list(range(len(y)))
    assert [int(r["given_label"]) for r in rows] == y.tolist()
    issues = [r["is_label_issue"] == "True" for r in rows]
    assert sum(issues) == report.num_issues
    assert "num_issues" in repr(report)


def with_nan(x):
    x = x.copy()
    x[7, 1] = np.nan
    return x


@pytest.mark.parametrize(
    "change, message",
    [
        ({"y": None}, "array of labels or targets.*Received: None"),
        ({"y": np.zeros(3, int)}, "one entry per example"),
        ({"y": np.full(64, 7)}, r"whole numbers from 0 to 2. Received: \[7\]"),
        ({"y": np.full(64, -1)}, r"from 0 to 2. Received: \[-1\]"),
        ({"y": np.full(64, np.nan)}, "`y` must be finite"),
        ({"y": np.full(64, "cat")}, "`label_names`"),
        ({"y": np.zeros((64, 2))}, "class numbers of shape"),
        ({"y": np.ones((64, 3))}, "must be one-hot"),
        ({"x": with_nan}, "`x` must be finite.*the first at 7"),
        ({"x": iter([1])}, "`x` must be an array"),
        ({"top": 0}, "`top` must be"),
        ({"task": "ranking"}, "`task` must be one of"),
        ({"label_names": ["a"]}, "`label_names` must be 3 names"),
        ({"label_names": "abc"}, "`label_names` must be 3 names"),
        ({"feature_names": ["a"]}, "`feature_names` must be 3 names"),
        ({"model": "none.keras"}, "no such file"),
        ({"model": 3}, "`model` must be"),
        ({"model": identity(3, "tanh")}, "last layer must be"),
        ({"model": identity(3, "sigmoid")}, "Multi-label outputs"),
        ({"from_logits": True}, "last layer is a softmax"),
        (
            {"data_parameter": np.ones(5)},
            "a finite value > 0 for each of the 64.*shape \\(5,\\)",
        ),
        (
            {"data_parameter": np.zeros(64)},
            "a finite value > 0.*from 0.0 to 0.0",
        ),
    ],
)
def test_what_cannot_be_audited_is_said(rng, change, message):
    x, y, _ = softmax_case(rng)
    arguments = {"model": identity(3, "softmax"), "x": x, "y": y} | change
    if callable(change.get("x")):
        arguments["x"] = change["x"](x)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        audit(**arguments, output=None)


def test_whole_numbers_of_one_linear_output_are_ambiguous(rng):
    x, _ = regression_case(rng)
    y = np.arange(len(x)) % 2
    with pytest.raises(ValueError, match="Pass `task='classification'`"):
        audit(identity(1), x, y, None)
    model = identity(1)
    model.compile("sgd", loss="mse")
    assert audit(model, x, y, None).task == "regression"


def test_unsafe_files_are_refused(tmp_path, rng):
    inputs = keras.Input((3,))
    outputs = keras.layers.Lambda(lambda v: v)(inputs)
    keras.Model(inputs, outputs).save(tmp_path / "model.keras")
    x, y, _ = softmax_case(rng)
    with pytest.raises(ValueError, match="(?i)lambda"):
        audit(tmp_path / "model.keras", x, y, None)


def test_several_elements_are_averaged_as_a_detector_does():
    x, y = kinds.data(32)
    given = keras.Input((5,))
    model = kl.LikelihoodModel(given, kl.layers.ScaleHead(2)(given))
    model.compile("sgd", loss=kl.losses.NormalLoss())
    random = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(random.normal(size=weight.shape))
    _, scale = model.predict(x, verbose=0)
    targets = np.stack([y, -y], axis=1) + 0.5
    scores = audit(model, x, targets, None).scores
    expected = np.sqrt(scale[:, 0].astype("float64") * scale[:, 1])
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    detector = kl.outliers.ScoreDetector(model).fit(x)
    np.testing.assert_allclose(
        detector.decision_scores_, np.log(scores), atol=1e-5
    )
