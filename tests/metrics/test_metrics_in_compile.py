"""Metrics in `compile` equal metrics of `predict_distribution`."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import losses, metrics
from tests import contracts

OF_ANY = {"CRPS", "LikelihoodLoss", "LocationScaleLoss"}
OF_ANY |= {"MultivariateNormalLoss", "MultivariateStudentTLoss"}
# Losses of families, whose likelihood is made from arguments.
OF_ANY |= {"NoisyLabelsLoss", "OrdinalLoss", "QuantilesLoss"}
OF_ANY |= {"Weighted", "ZeroInflatedLoss"}
LOSSES = [getattr(losses, n) for n in losses.__all__ if n not in OF_ANY]
# One of numbers, one of counts and one of classes.
TRACED = ("normal", "poisson", "softmax")
METRICS = {
    "calibration": lambda: metrics.CalibrationError(),
    "coverage": lambda: metrics.IntervalCoverage(0.8),
    "nll": lambda: metrics.NegativeLogLikelihood(),
    "sharpness": lambda: metrics.Sharpness(),
    "crps": lambda: metrics.ContinuousRankedProbabilityScore(),
    "ece": lambda: metrics.ExpectedCalibrationError(),
    "brier": lambda: metrics.BrierScore(),
}


def metrics_for(likelihood):
    """The metrics that apply to this likelihood, by name."""
    if hasattr(likelihood, "class_probabilities"):
        names = ["nll", "ece", "brier"]
    else:
        names = ["calibration", "coverage", "nll"]
        if "scale" in [p.name for p in likelihood.parameters]:
            names.append("sharpness")
        if likelihood is kl.likelihoods.Normal:
            names.append("crps")
    return {name: METRICS[name] for name in names}


def test_every_metric_is_tried():
    tried = {name for c in LOSSES for name in metrics_for(c.likelihood)}
    assert tried == set(METRICS)
    bases = {"ClassMetric", "DistributionMetric", "functions"}
    made = {type(make()).__name__ for make in METRICS.values()}
    assert made == set(metrics.__all__) - bases


def shaken(model):
    """Changes every weight, so that no parameter has its initial value."""
    random = np.random.default_rng(3)
    model.set_weights(
        [
            w + 0.3 * random.standard_normal(w.shape).astype(w.dtype)
            for w in model.get_weights()
        ]
    )
    return model


def compiled_equals_distribution(model, x, y, makers, weight, batch_size):
    """The contract: `evaluate` equals the metrics computed by hand."""
    found = model.evaluate(
        x,
        y,
        sample_weight=weight,
        batch_size=batch_size,
        verbose=0,
        return_dict=True,
    )
    distribution = model.predict_distribution(x, verbose=0)
    for make in makers.values():
        plain, weighted = make(), make()
        plain.update_state(y, distribution)
        weighted.update_state(y, distribution, weight)
        name = plain.name
        assert found[name] == pytest.approx(float(plain.result()), rel=1e-4)
        assert found[f"weighted_{name}"] == pytest.approx(
            float(weighted.result()), rel=1e-4
        )


# A head for every likelihood, and a learned value for one of each kind.
CASES = [("head", cls) for cls in LOSSES]
CASES += [("global", losses.NormalLoss), ("global", losses.SoftmaxLoss)]


@pytest.mark.few(2)
@pytest.mark.parametrize("kind, cls", CASES)
def test_metrics_get_the_distribution(cls, kind, rng):
    likelihood = cls.likelihood
    x = rng.normal(size=(20, 4)).astype("float32")
    y = contracts.targets_for(likelihood, (20, 3), rng)
    layer = keras.layers.Dense(3)
    if kind == "head":
        layer = kl.layers.LikelihoodHead(likelihood, units=3)
    model = contracts.small_model(layer, x)
    makers = metrics_for(likelihood)
    model.compile(
        "sgd",
        loss=cls(),
        metrics=[make() for make in makers.values()],
        weighted_metrics=[make() for make in makers.values()],
        run_eagerly=contracts.runs_eagerly(likelihood, TRACED),
    )
    weight = rng.uniform(0.2, 2.0, size=20).astype("float32")
    # The global cases see every metric with a shorter last batch, which JAX
    # compiles separately.
    batch_size = 7 if kind == "global" else 10
    compiled_equals_distribution(
        shaken(model), x, y, makers, weight, batch_size
    )


@pytest.mark.usefixtures("step_by_step")
def test_stock_metrics_get_the_prediction_beside_ours(rng):
    x = rng.normal(size=(20, 4)).astype("float32")
    y = x[:, :1]
    model = contracts.small_model(kl.layers.ScaleHead(1), x)
    model.compile(
        "sgd",
        loss=kl.losses.NormalLoss(),
        metrics=["mse", metrics.IntervalCoverage()],
    )
    found = model.evaluate(x, y, verbose=0, return_dict=True)
    prediction, _ = model.predict(x, verbose=0)
    assert found["mse"] == pytest.approx(np.mean((prediction - y) ** 2), 1e-4)
    history = model.fit(x, y, validation_split=0.2, verbose=0).history
    assert {"interval_coverage", "val_interval_coverage"} <= set(history)


@pytest.mark.usefixtures("step_by_step")
def test_a_dict_of_outputs_has_metrics_by_output(rng, tmp_path):
    x = rng.normal(size=(20, 4)).astype("float32")
    y = {"value": x[:, :1], "label": rng.integers(0, 3, 20)}
    inputs = keras.Input((4,))
    model = kl.LikelihoodModel(
        inputs,
        {
            "value": kl.layers.ScaleHead(1)(inputs),
            "label": kl.layers.TemperatureHead(3)(inputs),
        },
    )
    model.compile(
        "sgd",
        loss={
            "value": kl.losses.NormalLoss(),
            "label": kl.losses.SoftmaxLoss(),
        },
        metrics={
            "value": [metrics.IntervalCoverage(), "mse"],
            "label": ["accuracy", metrics.BrierScore()],
        },
    )
    shaken(model)
    found = model.evaluate(x, y, verbose=0, return_dict=True)
    fitted = model.predict_distribution(x, verbose=0)
    for name, metric in {
        "value": metrics.IntervalCoverage(),
        "label": metrics.BrierScore(),
    }.items():
        metric.update_state(y[name], fitted[name])
        expected = pytest.approx(float(metric.result()), rel=1e-4)
        assert found[f"{name}_{metric.name}"] == expected
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    assert again.evaluate(x, y, verbose=0, return_dict=True) == pytest.approx(
        found, rel=1e-5
    )


@pytest.mark.usefixtures("step_by_step")
def test_masked_outcomes_do_not_count(rng):
    inputs = keras.Input((4, 2))
    hidden = keras.layers.Masking(0.0)(inputs)
    model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1)(hidden))
    makers = metrics_for(kl.likelihoods.Normal)
    model.compile(
        "sgd",
        loss=kl.losses.NormalLoss(),
        metrics=[make() for make in makers.values()],
    )
    x = rng.normal(size=(6, 4, 2)).astype("float32")
    x[:, 2:] = 0.0
    y = rng.normal(size=(6, 4, 1)).astype("float32")
    y[:, 2:] = 1e6
    found = model.evaluate(x, y, verbose=0, return_dict=True)
    seen = [leaf[:, :2] for leaf in model.predict(x, verbose=0)]
    for make in makers.values():
        metric = make()
        seen_only = kl.likelihoods.Normal(seen[0], scale=seen[1])
        metric.update_state(y[:, :2], seen_only)
        expected = pytest.approx(float(metric.result()), rel=1e-4)
        assert found[metric.name] == expected


@pytest.mark.usefixtures("step_by_step")
def test_labels_of_no_weight_may_be_anything(rng):
    x = rng.normal(size=(6, 4)).astype("float32")
    y = np.array([0, 1, -1, 2, -1, 0])
    weight = (y >= 0).astype("float32")
    model = contracts.small_model(kl.layers.TemperatureHead(3), x)
    model.compile(
        "sgd",
        loss=kl.losses.SoftmaxLoss(),
        weighted_metrics=[metrics.NegativeLogLikelihood()],
    )
    found = model.evaluate(
        x, y, sample_weight=weight, verbose=0, return_dict=True
    )
    kept = y >= 0
    expected = model.evaluate(x[kept], y[kept], verbose=0, return_dict=True)
    name = "negative_log_likelihood"
    assert found[name] == pytest.approx(expected[name], rel=1e-5)


def test_data_parameters_count_where_an_index_is_given(rng):
    x = rng.normal(size=(20, 4)).astype("float32")
    y = x[:, :1]
    scale = kl.DataParameter(20, learning_rate=0.5)
    model = contracts.small_model(keras.layers.Dense(1), x)
    model.compile(
        "sgd",
        loss=kl.losses.NormalLoss(scale=scale),
        metrics=[metrics.NegativeLogLikelihood(), metrics.Sharpness()],
    )
    model.fit(x, kl.indexed(y), epochs=2, verbose=0)
    found = model.evaluate(x, kl.indexed(y), verbose=0, return_dict=True)
    assert found["sharpness"] == pytest.approx(scale.values().mean(), rel=1e-5)
    assert found["negative_log_likelihood"] == pytest.approx(found["loss"])
    plain = model.evaluate(x, y, verbose=0, return_dict=True)
    assert plain["sharpness"] == pytest.approx(1.0)


def test_a_missing_parameter_is_an_error():
    y = np.zeros((3, 1), "float32")
    for metric in (
        metrics.NegativeLogLikelihood("normal"),
        metrics.IntervalCoverage(),
        metrics.CalibrationError(),
        metrics.Sharpness(),
        metrics.ContinuousRankedProbabilityScore(),
    ):
        with pytest.raises(ValueError, match="`scale`.*only a prediction"):
            metric.update_state(y, y)


@pytest.mark.parametrize(
    "loss, metric, message",
    [
        ("normal", metrics.BrierScore, "likelihood of classes.*'normal'"),
        ("softmax", metrics.Sharpness, "temperature.*Received: 'scale'"),
        (
            "normal",
            lambda: metrics.IntervalCoverage(likelihood="laplace"),
            "Omit `likelihood`.*'laplace'",
        ),
        (
            "softmax",
            lambda: metrics.BrierScore(from_logits=False),
            "`from_logits` must be omitted",
        ),
    ],
)
def test_a_metric_that_does_not_fit_is_refused_at_compile(
    loss, metric, message
):
    inputs = keras.Input((2,))
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(3)(inputs))
    with pytest.raises(ValueError, match=message):
        model.compile(
            "sgd", loss=kl.losses.LikelihoodLoss(loss), metrics=[metric()]
        )
