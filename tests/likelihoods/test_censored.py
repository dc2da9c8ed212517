"""Targets known by bounds: values, tails, gradients, models."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import keras_likelihood as kl
from keras_likelihood.likelihoods import Censored
from keras_likelihood.likelihoods.special import log_gamma
from tests import contracts
from tests.autodiff import (
    central_differences,
    gradients,
    values_and_gradients,
)
from tests.contracts import as_numpy

INF = np.inf
ORACLES = {
    "normal": (0.4, {"scale": 1.5}, stats.norm(0.4, 1.5)),
    "laplace": (0.4, {"scale": 1.5}, stats.laplace(0.4, 1.5)),
    "logistic": (0.4, {"scale": 1.5}, stats.logistic(0.4, 1.5)),
    "student_t": (0.4, {"df": 3, "scale": 1.5}, stats.t(3, 0.4, 1.5)),
    "exponential": (2.0, {}, stats.expon(scale=2.0)),
    "weibull": (
        2.0,
        {"shape": 2},
        stats.weibull_min(2, scale=4 / np.sqrt(np.pi)),
    ),
    "log_normal": (2.0, {"scale": 1}, stats.lognorm(1, scale=2 * np.exp(-0.5))),
    "gamma": (2.0, {"shape": 3}, stats.gamma(3, scale=2 / 3)),
    "poisson": (2.0, {}, stats.poisson(2.0)),
}
BOUNDS = np.array(
    [(1, 1), (-INF, 1), (2, INF), (1, 3), (0, 1), (3, 5), (-INF, INF)]
)


def oracle_nll(oracle, y):
    low, high = y[..., 0], y[..., 1]
    is_count = oracle.dist.name == "poisson"
    density = oracle.logpmf if is_count else oracle.logpdf
    with np.errstate(all="ignore"):
        upper = low > oracle.median()
        share = np.where(
            upper,
            oracle.sf(low) - oracle.sf(high),
            oracle.cdf(high) - oracle.cdf(low),
        )
        return -np.where(low == high, density(low), np.log(share))


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_nll_matches_the_oracle(name, double_precision):
    mean, parameters, oracle = ORACLES[name]
    y = BOUNDS[:, None, :]
    prediction = ops.full((len(y), 1), mean, dtype="float64")
    found = as_numpy(Censored(name)(prediction, **parameters).nll(y))
    rtol = 1e-6 if name in ("student_t", "gamma", "poisson") else 1e-9
    np.testing.assert_allclose(
        found, oracle_nll(oracle, y), rtol=rtol, atol=1e-12
    )


@pytest.mark.parametrize("name", ["normal", "weibull"])
def test_gradients_match_differences(name, double_precision):
    mean, parameters, _ = ORACLES[name]
    y = BOUNDS[:-1, None, :]
    values = (mean, *parameters.values())
    arrays = [np.full((len(y), 1), v, "float64") for v in values]

    def nll(prediction, *values):
        named = dict(zip(parameters, values, strict=True))
        return Censored(name)(prediction, **named).nll(y)

    for mine, slow in zip(
        gradients(nll, *arrays),
        central_differences(nll, *arrays),
        strict=True,
    ):
        np.testing.assert_allclose(mine, slow, rtol=1e-5, atol=1e-7)


FAR = np.array(
    [
        *[(-INF, -40), (40, INF), (60, 61), (-61, -60), (-INF, 30), (-40, INF)],
        *[(1, np.float32(1.0001)), (0, np.float32(1e-30)), (30, 300)],
    ]
)


def test_normal_tails_have_all_digits_of_float32():
    y = FAR[:, None].astype("float32")
    zeros = np.zeros((len(y), 1), "float32")
    found = as_numpy(Censored("normal")(zeros).nll(y))[:, 0]
    n = stats.norm
    expected = [
        *[-n.logcdf(-40), -n.logsf(40), -n.logsf(60), -n.logsf(60), 0, 0],
        -np.log(n.cdf(float(y[6, 0, 1])) - n.cdf(1)),
        -n.logpdf(0) - np.log(1e-30),
        -n.logsf(30),
    ]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-30)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", ["normal", "laplace", "student_t", "weibull", "log_normal"]
)
def test_float32_gradients_are_finite_far_out(name):
    mean, parameters, oracle = ORACLES[name]
    y = np.concatenate([FAR, BOUNDS, [(0, 0.5), (-2, 3), (0, INF)]])
    positive = oracle.support()[0] == 0
    if positive:
        y = y[~((y[:, 0] == y[:, 1]) & (y[:, 0] < 0)) & (y[:, 1] > 0)]
    y = y[:, None].astype("float32")
    arrays = [
        np.full((len(y), 1), v, "float32") for v in (mean, *parameters.values())
    ]

    def nll(prediction, *values):
        named = dict(zip(parameters, values, strict=True))
        return Censored(name)(prediction, **named).nll(y)

    found, slopes = values_and_gradients(nll, *arrays)
    assert np.all(np.isfinite(found))
    for gradient in slopes:
        assert np.all(np.isfinite(gradient))


def test_exact_targets_and_shapes():
    made = Censored("normal")(np.zeros((3, 1), "float32"))
    y = np.array([[0.0], [1.0], [2.0]], "float32")
    expected = as_numpy(made.inner.nll(y))
    pairs = kl.censored(y)
    assert pairs.shape == (3, 1, 2)
    for given in (y, pairs, pairs[:, 0]):
        np.testing.assert_allclose(as_numpy(made.nll(given)), expected)
    with pytest.raises(ValueError, match=r"shape \(3, 1, 2\) or \(3, 1\)"):
        made.nll(np.zeros((3, 1, 3), "float32"))
    with pytest.raises(ValueError, match="Received"):
        made.nll(np.zeros((4, 2), "float32"))
    wide = Censored("normal")(np.zeros((3, 2), "float32"))
    assert as_numpy(wide.nll(np.zeros((3, 2), "float32"))).shape == (3, 2)


def test_impossible_bounds_score_nan_and_are_refused():
    bad = [(2, 1), (INF, INF), (-INF, -INF), (np.nan, 1), (INF, -INF)]
    y = np.array(bad, "float32")[:, None]
    nll = as_numpy(Censored("normal")(np.zeros((5, 1), "float32")).nll(y))
    assert np.all(np.isnan(nll))
    for pair in y:
        with pytest.raises(ValueError, match="lower < upper.*Received"):
            Censored("normal").check_targets(pair[None], (None, 1))
    with pytest.raises(ValueError, match="finite numbers > 0. Received"):
        Censored("weibull").check_targets(kl.censored([-1.0]), (None, 1))
    Censored("weibull").check_targets(kl.censored([2.0], below=3), (None, 1))
    for inner in ("softmax", "bernoulli", "censored(normal)"):
        with pytest.raises(ValueError, match="single numbers.*Received"):
            Censored(inner)


def test_targets_are_made_from_what_people_have():
    found = kl.censored([3, 5], event=[True, False])
    np.testing.assert_array_equal(found, [[3, 3], [5, INF]])
    found = kl.censored([[0.0], [0.5], [9.0]], below=0.1, above=8)
    expected = [[[-INF, np.float32(0.1)]], [[0.5, 0.5]], [[8, INF]]]
    np.testing.assert_array_equal(found, expected)
    found = kl.censored(lower=[0, -INF], upper=1)
    np.testing.assert_array_equal(found, [[0, 1], [-INF, 1]])
    assert found.dtype == "float32"
    for given, message in [
        ({"event": [1]}, "or `y`, with"),
        ({"y": [1.0], "lower": [1], "upper": [1]}, "or `y`, with"),
        ({"y": [1.0], "event": [1], "below": 2}, "or `y`, with"),
        ({"lower": [1], "upper": [2], "below": 2}, "or `y`, with"),
        ({"y": [1.0], "event": [2]}, r"0 or 1.*\[2\]"),
        ({"y": [1.0, 2], "event": [1]}, "shape"),
        ({"y": ["a"]}, "numbers"),
        ({"y": [np.nan]}, r"Received: \[\[nan, nan\]\]"),
        ({"lower": [[1.0], [3]], "upper": 2}, r"Received: \[\[3.0, 2.0\]\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            kl.censored(**given)


def test_what_is_said_of_the_outcome_is_not_censored(rng):
    prediction = rng.normal(size=(5, 2)).astype("float32")
    made = Censored("laplace")(prediction, scale=2.0)
    inner = made.inner
    for method, args in [
        ("mean", ()),
        ("quantile", (0.3,)),
        ("cdf", (prediction + 1,)),
        ("sample", (3, 5)),
        ("information", ()),
        ("scale_exponent", ()),
        ("log_cdf", (prediction,)),
        ("log_survival", (prediction + 1,)),
    ]:
        mine, theirs = (getattr(d, method)(*args) for d in (made, inner))
        np.testing.assert_array_equal(
            as_numpy(ops.convert_to_tensor(mine)),
            as_numpy(ops.convert_to_tensor(theirs)),
        )


def test_metrics_count_the_part_between_the_bounds():
    zeros, ones = np.zeros((4, 1), "float32"), np.ones((4, 1), "float32")
    y = kl.censored(lower=[[0], [-INF], [9], [0]], upper=[[0], [0], [9], [INF]])
    coverage = kl.metrics.IntervalCoverage(0.8, likelihood="censored(normal)")
    coverage.update_state(y, (zeros, ones))
    # 1, the 0.4 of 0.5 inside, 0, and 0.4 of 0.5.
    assert float(coverage.result()) == pytest.approx((1 + 0.8 + 0 + 0.8) / 4)
    error = kl.metrics.CalibrationError("censored(normal)", levels=2)
    error.update_state(y[1:2], (zeros[:1], ones[:1]))
    # At p = 1/2 all of (-inf, 0] lies below.
    assert float(error.result()) == pytest.approx(0.25)
    error = kl.metrics.CalibrationError("censored(normal)", levels=4)
    error.update_state(y[[1, 3]], (zeros[:2], ones[:2]))
    assert float(error.result()) == pytest.approx(0, abs=1e-6)


def test_coverage_of_counts_is_that_of_their_interval(rng):
    prediction = np.full((400, 1), 3, "float32")
    counts = rng.poisson(prediction).astype("float32")
    lower, upper = Censored("poisson")(prediction).interval(0.8)
    inside = (counts >= as_numpy(lower)) & (counts <= as_numpy(upper))
    coverage = kl.metrics.IntervalCoverage(0.8, likelihood="censored(poisson)")
    coverage.update_state(kl.censored(counts), prediction)
    assert float(coverage.result()) == pytest.approx(inside.mean(), rel=1e-5)


@pytest.mark.few(0)
def test_a_model_of_masked_sequences_with_data_parameters(rng):
    x = rng.normal(size=(8, 3, 2)).astype("float32")
    x[:, 2] = 0
    y = contracts.targets_for(Censored("normal"), (8, 3, 1), rng)
    inputs = keras.Input((3, 2))
    masked = keras.layers.Masking()(inputs)
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(masked))
    scale = kl.DataParameter(num_examples=8)
    loss = kl.losses.LikelihoodLoss(Censored("normal"), scale=scale)
    with pytest.raises(ValueError, match="Targets of Censored.*'mse'"):
        model.compile("adam", loss=loss, metrics=["mse"])
    model.compile("sgd", loss=loss)
    model.fit(x, kl.indexed(y), epochs=1, verbose=0)
    assert np.all(scale.values() != 1) and np.all(np.isfinite(scale.values()))
    made = Censored("normal")(model.predict(x, verbose=0))
    expected = as_numpy(made.nll(y))[:, :2].mean()
    y[:, 2] = 7.0
    found = model.evaluate(x, y, verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="lower < upper.*Received"):
        flat = kl.LikelihoodModel(inputs, keras.layers.Flatten()(inputs))
        flat.compile("adam", loss=kl.losses.LikelihoodLoss(Censored("normal")))
        flat.fit(x, np.full((8, 6, 2), INF), verbose=0)


# Coefficients of x0, x1 and 1, logarithm of shape or scale, and the sum of
# log-likelihoods, by lifelines 0.30.3 on `survival_data`: those of
# `WeibullAFTFitter(penalizer=0.0)` and `LogNormalAFTFitter(penalizer=0.0)`
# with `fit`, `fit_left_censoring` and `fit_interval_censoring`, the latter
# with lower bounds of 0 replaced by 1e-8.
LIFELINES = {
    ("weibull", "right"): (
        *[0.6436597, -0.4356448, 1.1750743, 0.4853526],
        -67.766396,
    ),
    ("weibull", "left"): (
        *[0.5697068, -0.4386569, 1.1479506, 0.5283321],
        -108.323352,
    ),
    ("weibull", "interval"): (
        *[0.5525378, -0.420552, 1.1533909, 0.490218],
        -110.850853,
    ),
    ("normal", "right"): (
        *[0.5754724, -0.4363789, 0.8598137, -0.1521478],
        -70.203043,
    ),
    ("normal", "left"): (
        *[0.5176109, -0.4639674, 0.8481186, -0.4076727],
        -111.036661,
    ),
    ("normal", "interval"): (
        *[0.5111832, -0.4476236, 0.8379544, -0.3698485],
        -113.39157,
    ),
}


def survival_data(kind):
    """Inputs `(60, 3)` with a 1 at the end, and bounds of the times."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    time = np.exp(1 + x @ [0.5, -0.3]) * rng.weibull(1.5, size=60)
    limit = rng.uniform(1, 6, size=60)
    x = np.concatenate([x, np.ones((60, 1))], axis=1)
    if kind == "right":
        seen, event = np.minimum(time, limit), time <= limit
        return x, kl.censored(seen, event=event)
    if kind == "left":
        return x, kl.censored(time, below=1.0)
    return x, kl.censored(lower=np.floor(time), upper=np.floor(time) + 1)


def nll_of_normal(weights, spread, x, bounds):
    location = ops.matmul(x, weights)
    return Censored("normal")(location, scale=ops.exp(spread)).nll(bounds)


def nll_of_weibull(weights, spread, x, bounds):
    # Their location is the scale parameter, ours is the mean.
    scale, spread = ops.exp(ops.matmul(x, weights)), ops.exp(spread)
    mean = scale * ops.exp(log_gamma(1 + 1 / spread))
    return Censored("weibull")(mean, shape=spread).nll(bounds)


NLL_OF_LIFELINES = {"normal": nll_of_normal, "weibull": nll_of_weibull}


@pytest.mark.parametrize("name, kind", sorted(LIFELINES))
def test_the_optimum_is_that_of_lifelines(name, kind):
    """Equal likelihood and zero slope at the coefficients of lifelines."""
    *weights, spread, log_likelihood = LIFELINES[name, kind]
    x, bounds = survival_data(kind)
    weights, spread = np.float32(weights)[:, None], np.float32([[spread]])
    jacobian = 0.0
    if name == "normal":
        exact = bounds[:, 0] == bounds[:, 1]
        jacobian = np.log(bounds[exact, 0]).sum()
        with np.errstate(divide="ignore"):
            bounds = np.log(np.maximum(bounds, 0))

    found, slopes = values_and_gradients(
        NLL_OF_LIFELINES[name],
        weights,
        spread,
        given=[x.astype("float32"), bounds.astype("float32")],
    )
    assert found.sum() + jacobian == pytest.approx(-log_likelihood, rel=1e-5)
    for slope in slopes:
        np.testing.assert_allclose(slope / len(x), 0, atol=1e-4)
