"""Guarantees of every recalibrator of classifiers, on arrays."""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from keras_likelihood import recalibration
from keras_likelihood.recalibration.auto import pool_weights
from keras_likelihood.recalibration.inputs import Rows
from keras_likelihood.recalibration.softmax import (
    MappedSoftmax,
    softmax_moments,
    solve_temperature,
    tempered_softmax,
)

METHODS = [
    getattr(recalibration, name)
    for name in recalibration.__all__
    if name not in ("ClassifierRecalibrator", "JointScaling", "regression")
]
TEMPERATURE_METHODS = [
    recalibration.GlobalScaling,
    recalibration.LinearScaling,
    recalibration.LinearFeatureScaling,
    recalibration.DeepScaling,
]


def draw(rows=500, classes=4, temperature=2.5, seed=0):
    """Logits that are overconfident by `temperature`."""
    random = np.random.default_rng(seed)
    logits = random.standard_normal((rows, classes)) * 4
    y = (logits / temperature + random.gumbel(size=logits.shape)).argmax(1)
    features = np.c_[logits[:, :2], random.standard_normal((rows, 3))]
    return logits, y, features


def nll(logits, y):
    return -log_softmax(logits, axis=1)[np.arange(len(y)), y].mean()


def test_moments_are_the_derivatives():
    logits, y, _ = draw(rows=40)
    tau, step = np.random.default_rng(0).uniform(0.2, 2, 40), 1e-4
    at = softmax_moments(logits, y, tau)
    up = softmax_moments(logits, y, tau + step)
    down = softmax_moments(logits, y, tau - step)
    rows = np.arange(40)
    expected = -log_softmax(logits * tau[:, None], axis=1)[rows, y]
    np.testing.assert_allclose(at.nll, expected, atol=1e-10)
    slope = (up.nll - down.nll) / (2 * step)
    np.testing.assert_allclose(at.slope, slope, atol=1e-5)
    curvature = (up.slope - down.slope) / (2 * step)
    np.testing.assert_allclose(at.curvature, curvature, atol=1e-5)
    top = softmax(logits * tau[:, None], axis=1).max(axis=1)
    np.testing.assert_allclose(at.confidence, top, atol=1e-12)


@pytest.mark.parametrize("rows", [300, 20_000])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 6.0])
def test_global_temperature_is_the_minimum(rows, temperature):
    logits, y, _ = draw(rows, temperature=temperature)
    fitted = recalibration.GlobalScaling().fit_arrays(logits, y)
    found = minimize_scalar(
        lambda t: nll(logits * np.exp(t), y),
        bounds=(-4, 4),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert nll(logits / fitted.parameters_["temperature"], y) <= (
        found.fun + 1e-9
    )


@pytest.mark.few(3)
@pytest.mark.parametrize("method", METHODS)
def test_validation_nll_never_rises(method):
    for seed, temperature in ((0, 2.5), (1, 0.4), (2, 1.0)):
        logits, y, features = draw(temperature=temperature, seed=seed)
        fitted = method().fit_arrays(logits, y, features)
        report = fitted.report_
        assert report["nll_after"] <= report["nll_before"] + 1e-9
        p = fitted.calibrate(logits, features)
        rows = np.arange(len(y))
        assert report["nll_after"] == pytest.approx(
            -np.log(p[rows, y]).mean(), rel=1e-6
        )
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-9)


@pytest.mark.parametrize("method", TEMPERATURE_METHODS)
def test_temperature_methods_keep_every_class(method):
    logits, y, features = draw()
    fitted = method().fit_arrays(logits, y, features)
    assert fitted.parameters_["temperature"] > 0
    p = fitted.calibrate(logits, features)
    np.testing.assert_array_equal(p.argmax(1), logits.argmax(1))


def test_linear_scaling_finds_a_varying_temperature():
    random = np.random.default_rng(0)
    logits = random.standard_normal((4000, 3)) * 3
    features = random.standard_normal((4000, 5))
    temperature = np.exp(0.8 * features[:, :1])
    y = (logits / temperature + random.gumbel(size=logits.shape)).argmax(1)
    linear = recalibration.LinearFeatureScaling().fit_arrays(
        logits, y, features
    )
    flat = recalibration.GlobalScaling().fit_arrays(logits, y)
    gain = flat.report_["nll_after"] - linear.report_["nll_after"]
    assert gain > 0.02
    kernel = np.abs(linear.parameters_["network"][0][:, 0])
    assert kernel[0] > 4 * kernel[1:].max()


def test_useless_features_do_not_overfit():
    logits, y, _ = draw(1500)
    random = np.random.default_rng(3)
    features = random.standard_normal((1500, 600))
    train, test = slice(0, 500), slice(500, None)
    fitted = recalibration.LinearFeatureScaling().fit_arrays(
        logits[train], y[train], features[train]
    )
    flat = recalibration.GlobalScaling().fit_arrays(logits[train], y[train])
    rows = np.arange(1000)
    p = fitted.calibrate(logits[test], features[test])[rows, y[test]]
    q = flat.calibrate(logits[test])[rows, y[test]]
    assert -np.log(p).mean() < -np.log(q).mean() + 0.005


def test_rows_of_weight_zero_are_ignored():
    logits, y, _ = draw(300)
    weight = np.ones(300)
    weight[:50], y[:50] = 0, 255
    fitted = recalibration.GlobalScaling().fit_arrays(
        logits, y, sample_weight=weight
    )
    rest = recalibration.GlobalScaling().fit_arrays(logits[50:], y[50:])
    assert fitted.parameters_ == pytest.approx(rest.parameters_)


@pytest.mark.few(3)
@pytest.mark.parametrize("method", METHODS)
def test_hard_inputs_end_finite(method):
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 90)
    features = random.standard_normal((90, 2))
    separable = 10.0 * np.eye(3)[y]
    constant = np.zeros((90, 3))
    wrong = 10.0 * np.eye(3)[(y + 1) % 3]
    huge = random.standard_normal((90, 3)) * 1e6
    for logits in (separable, constant, wrong, huge):
        fitted = method().fit_arrays(logits, y, features)
        p = fitted.calibrate(logits, features)
        assert np.isfinite(p).all()
        report = fitted.report_
        assert report["nll_after"] <= report["nll_before"] + 1e-9


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_logits_that_know_nothing_keep_their_classes(size):
    """The temperature stops where float32 still distinguishes the classes."""
    random = np.random.default_rng(0)
    logits = size * random.standard_normal((200, 5))
    y = (logits.argmax(axis=1) + random.integers(1, 5, 200)) % 5
    fitted = recalibration.GlobalScaling().fit_arrays(logits, y)
    p = fitted.calibrate(logits)
    assert abs(p - 0.2).max() < 1e-3
    kept = p.astype("float32").argmax(axis=1) == logits.argmax(axis=1)
    assert kept.mean() > 0.99


@pytest.mark.few(3)
@pytest.mark.parametrize("method", METHODS)
def test_binary_columns_and_dense_maps(method):
    random = np.random.default_rng(0)
    z = 3 * random.standard_normal((200, 1))
    y = (z[:, 0] / 2 + random.logistic(size=200) > 0).astype(int)
    features = np.c_[z, random.standard_normal((200, 1))]
    fitted = method().fit_arrays(z, y, features)
    column = fitted.calibrate(z, features)
    assert column.shape == (200, 1)
    flat = fitted.calibrate(z[:, 0], features)
    np.testing.assert_allclose(flat, column[:, 0])
    p = 1 / (1 + np.exp(-z))
    same = fitted.calibrate(p, features, from_logits=False)
    np.testing.assert_allclose(same, column, atol=1e-4)
    logits, y, features = draw(240)
    fitted = method().fit_arrays(
        logits.reshape(10, 6, 4, 4),
        y.reshape(10, 6, 4),
        features.reshape(10, 6, 4, 5),
    )
    dense = fitted.calibrate(
        logits.reshape(10, 6, 4, 4), features.reshape(10, 6, 4, 5)
    )
    rows = method().fit_arrays(logits, y, features)
    expected = rows.calibrate(logits, features)
    np.testing.assert_allclose(dense.reshape(240, 4), expected, atol=1e-9)


def test_auto_weighs_its_candidates():
    logits, y, features = draw(400)
    auto = recalibration.AutoScaling().fit_arrays(logits, y, features)
    assert set(auto.weights_) <= set(auto.cross_validated_nll_)
    assert sum(auto.weights_.values()) == pytest.approx(1)
    assert auto.report_["weights"] == auto.weights_
    assert next(iter(auto.weights_)) in auto.parameters_["method"]
    members = [
        softmax(member._map(logits, features), axis=1)
        for member in auto.members_
    ]
    expected = np.tensordot(list(auto.weights_.values()), members, 1)
    found = auto.calibrate(logits, features)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    flat = recalibration.AutoScaling(keep_accuracy=True).fit_arrays(logits, y)
    p = flat.calibrate(logits)
    np.testing.assert_array_equal(p.argmax(1), logits.argmax(1))


def test_auto_mixes_what_none_of_its_candidates_can():
    """Half of the rows have random labels, unknown to the logits."""
    random = np.random.default_rng(0)
    logits = 6 * random.standard_normal((3000, 3))
    y = (logits + random.gumbel(size=logits.shape)).argmax(1)
    y = np.where(random.random(3000) < 0.5, y, random.integers(0, 3, 3000))
    train, test = slice(0, 1500), slice(1500, None)
    rows = np.arange(1500)
    found = {}
    for name in ("GlobalScaling", "MatrixScaling", "AutoScaling"):
        method = getattr(recalibration, name)()
        method.fit_arrays(logits[train], y[train])
        p = method.calibrate(logits[test])[rows, y[test]]
        found[name] = -np.log(p).mean()
    assert found["AutoScaling"] < min(found.values()) + 1e-12
    assert found["AutoScaling"] < found["MatrixScaling"] - 0.005


def test_auto_does_not_learn_shares_of_classes_by_chance():
    """Five rows per class are little evidence about its frequency."""
    random = np.random.default_rng(0)
    logits = random.standard_normal((2300, 60))
    logits[np.arange(2300), random.integers(0, 60, 2300)] += 5
    y = (logits + random.gumbel(size=logits.shape)).argmax(1)
    logits *= 2
    found = {}
    for name in ("GlobalScaling", "AutoScaling"):
        method = getattr(recalibration, name)()
        method.fit_arrays(logits[:300], y[:300])
        p = method.calibrate(logits[300:])[np.arange(2000), y[300:]]
        found[name] = -np.log(p).mean()
    assert found["AutoScaling"] < found["GlobalScaling"] + 0.01


@pytest.mark.parametrize(
    "name", ["AutoScaling", "GlobalScaling", "MatrixScaling"]
)
def test_few_rows_that_are_all_right(name):
    """No given label contradicts a temperature of 0, but new rows will."""
    logits, y, _ = draw(4000, temperature=1.0)
    right = np.flatnonzero(logits.argmax(1) == y)[:12]
    fitted = getattr(recalibration, name)().fit_arrays(logits[right], y[right])
    p = fitted.calibrate(logits)[np.arange(4000), y]
    assert -np.log(p).mean() < 2 * nll(logits, y)
    assert fitted.report_["nll_after"] <= fitted.report_["nll_before"]


def test_prior_of_the_temperature_does_not_know_the_unit_of_weights():
    logits, y, _ = draw(40)
    found = [
        solve_temperature(Rows(logits, y, np.full(40, weight)), 1.0)
        for weight in (1.0, 1 / 40, 100.0)
    ]
    np.testing.assert_allclose(found, found[0], rtol=1e-6)
    exact = solve_temperature(Rows(logits, y, np.ones(40)))
    assert 1 < found[0] < exact < 1.2 * found[0]


def test_pool_weights_minimise_the_nll():
    random = np.random.default_rng(0)
    losses = random.exponential(size=(20_000, 3))
    losses[:, 2] += 5
    weights = pool_weights(losses)

    def pooled(share):
        mixed = share * np.exp(-losses[:, 0])
        return -np.log(mixed + (1 - share) * np.exp(-losses[:, 1])).mean()

    best = minimize_scalar(pooled, bounds=(0, 1), method="bounded")
    assert weights[2] < 0.01 and weights.sum() == pytest.approx(1)
    assert weights[0] == pytest.approx(best.x, abs=0.02)
    heavy = np.where(losses[:, 0] < losses[:, 1], 3.0, 1.0)
    assert pool_weights(losses, heavy)[0] > weights[0]


def test_the_advantage_of_the_model_as_it_is_fades_with_rows():
    shares = [pool_weights(np.ones((rows, 5)))[0] for rows in (20, 50, 1000)]
    assert shares[0] > 0.9 > shares[1] > 0.5 > 0.25 > shares[2] > 0.2


@pytest.mark.parametrize("name", ["LinearScaling", "VectorScaling"])
def test_memory_follows_the_logits(name):
    random = np.random.default_rng(0)
    logits = random.standard_normal((20, 3000))
    tracemalloc.start()
    method = getattr(recalibration, name)()
    method.fit_arrays(logits, random.integers(0, 3000, 20))
    assert tracemalloc.get_traced_memory()[1] < 100 * logits.nbytes
    tracemalloc.stop()


def test_tiny_probabilities_keep_their_order():
    """Naive Bayes is often so overconfident."""
    random = np.random.default_rng(0)
    logits = 20 * random.standard_normal((2000, 2))
    y = (logits / 20 + random.gumbel(size=logits.shape)).argmax(1)
    p = softmax(logits, axis=1)
    assert (p < 1e-14).mean() > 0.1
    fitted = recalibration.GlobalScaling()
    fitted.fit_arrays(p, y, from_logits=False)
    assert fitted.temperature == pytest.approx(20, rel=0.1)


def draw_mapped(seed=0):
    """Rows, columns and logits, in float64, for derivatives."""
    random = np.random.default_rng(seed)
    z = log_softmax(2 * random.standard_normal((30, 3)), axis=1)
    x = random.standard_normal((30, 2))
    labels, weight = random.integers(0, 3, 30), random.uniform(0.5, 2, 30)
    return Rows(z, labels, weight, {"features": x}), x, z


@pytest.mark.parametrize("kind", ["map", "temperature"])
def test_objectives_have_the_gradients_of_their_nll(kind):
    rows, x, z = draw_mapped()
    if kind == "map":
        groups = ("bias", "vector", "matrix", "features")
        objective = MappedSoftmax(rows, groups)
    else:
        columns = {"features": x, "logits": z}
        objective = tempered_softmax(rows, columns)
    random = np.random.default_rng(1)
    at = {
        name: 0.1 * random.standard_normal(shape)
        for name, shape in objective.shapes.items()
    }
    _, gradients = objective.evaluate(at)
    for name, gradient in gradients.items():
        direction = random.standard_normal(gradient.shape)
        values = [
            objective.evaluate({**at, name: at[name] + step * direction})[0]
            for step in (1e-5, -1e-5)
        ]
        slope = (values[0] - values[1]) / 2e-5
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-5)


def test_errors_say_what_was_received():
    logits, y, features = draw(50)
    scaling = recalibration.GlobalScaling()
    with pytest.raises(ValueError, match="must be fitted"):
        scaling.calibrate(logits)
    with pytest.raises(ValueError, match="are probabilities"):
        scaling.fit_arrays(softmax(logits, axis=1), y)
    with pytest.raises(ValueError, match="must be probabilities"):
        scaling.fit_arrays(logits, y, from_logits=False)
    with pytest.raises(ValueError, match=r"from 0 to 3. Received: \[4\]"):
        scaling.fit_arrays(logits, np.full(50, 4))
    with pytest.raises(ValueError, match="one-hot"):
        scaling.fit_arrays(logits, logits)
    with pytest.raises(ValueError, match=r"Received: shape \(49,\)"):
        scaling.fit_arrays(logits, y[:49])
    with pytest.raises(ValueError, match="NaN"):
        scaling.fit_arrays(np.full((50, 4), np.nan), y)
    with pytest.raises(ValueError, match="`features` must be an array"):
        recalibration.LinearFeatureScaling().fit_arrays(logits, y)
    with pytest.raises(ValueError, match="`features` must have shape"):
        recalibration.LinearFeatureScaling().fit_arrays(logits, y, features[:9])
    with pytest.raises(ValueError, match="`logit_map` must be"):
        recalibration.JointScaling(logit_map="cubic")
