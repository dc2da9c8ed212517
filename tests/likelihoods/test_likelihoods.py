"""Every likelihood against an independent oracle."""

import math

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

from keras_likelihood import likelihoods
from tests import contracts, oracles
from tests.autodiff import central_differences, gradients

CONTINUOUS = sorted(oracles.CONTINUOUS)
COUNTS = sorted(oracles.COUNTS)
ALL = sorted(likelihood.name() for likelihood in contracts.LIKELIHOODS)


def make_case(name, rng, rows=7):
    """`(y, prediction, parameters)` in float64, parameters element-wise."""
    likelihood = likelihoods.get(name)
    prediction = rng.normal(size=(rows, 3))
    prediction = contracts.predictions_for(likelihood, prediction)
    width = 1 if likelihood.event_rank else 3
    parameters = {
        p.name: p.initial * rng.uniform(0.5, 1.5, size=(rows, width))
        for p in likelihood.parameters
    }
    if likelihood.prediction_constraint is not None:
        oracle = (oracles.CONTINUOUS | oracles.COUNTS)[name]
        y = oracle(prediction, **parameters).rvs(random_state=rng)
        y = y.astype("float64")
    elif name == "softmax":
        y = rng.integers(0, 3, size=rows).astype("float64")
    elif name == "bernoulli":
        y = rng.integers(0, 2, size=(rows, 3)).astype("float64")
    else:
        y = prediction + 3 * rng.normal(size=prediction.shape)
    return y, prediction, parameters


def build(name, prediction, parameters):
    return likelihoods.get(name)(
        ops.convert_to_tensor(prediction),
        **{k: ops.convert_to_tensor(v) for k, v in parameters.items()},
    )


def numpy(x):
    return ops.convert_to_numpy(x)


def test_every_likelihood_has_an_oracle():
    assert set(ALL) == {*CONTINUOUS, *COUNTS, "softmax", "bernoulli"}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_nll_and_cdf_match_the_oracle(name, rng, double_precision):
    y, prediction, parameters = make_case(name, rng)
    oracle = oracles.CONTINUOUS[name](prediction, **parameters)
    distribution = build(name, prediction, parameters)
    np.testing.assert_allclose(
        numpy(distribution.nll(y)), -oracle.logpdf(y), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        numpy(distribution.cdf(y)), oracle.cdf(y), atol=2e-9
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantile_and_interval_invert_the_cdf(name, rng, double_precision):
    _, prediction, parameters = make_case(name, rng)
    distribution = build(name, prediction, parameters)
    for p in (0.001, 0.2, 0.5, 0.9, 0.999):
        again = numpy(distribution.cdf(distribution.quantile(p)))
        np.testing.assert_allclose(again, p, atol=1e-7)
    low, high = distribution.interval(0.8)
    share = numpy(distribution.cdf(high)) - numpy(distribution.cdf(low))
    np.testing.assert_allclose(share, 0.8, atol=1e-7)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_samples_follow_the_cdf(name):
    start = contracts.predictions_for(likelihoods.get(name), np.float32(2.0))
    distribution = likelihoods.get(name)(ops.full((1, 1), start))
    draw = distribution.sample(4000, seed=3)
    assert tuple(draw.shape) == (4000, 1, 1)
    uniform = numpy(distribution.cdf(ops.reshape(draw, (4000, 1))[:1]))
    assert uniform.shape == (1, 1)
    shifted = likelihoods.get(name)(ops.full((4000, 1), start))
    uniform = numpy(shifted.cdf(ops.reshape(draw, (4000, 1))))
    assert stats.kstest(uniform.ravel(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("name", ALL)
def test_sampling_repeats_with_its_seed(name, rng):
    _, prediction, parameters = make_case(name, rng)
    distribution = build(name, prediction, parameters)
    first = numpy(distribution.sample(seed=5))
    np.testing.assert_array_equal(first, numpy(distribution.sample(seed=5)))
    assert not np.array_equal(first, numpy(distribution.sample(seed=6)))


@pytest.mark.parametrize("one_hot", [False, True])
def test_softmax_nll_matches_the_oracle(one_hot, rng, double_precision):
    y, prediction, parameters = make_case("softmax", rng)
    target = np.eye(3)[y.astype(int)] if one_hot else y
    distribution = build("softmax", prediction, parameters)
    np.testing.assert_allclose(
        numpy(distribution.nll(target)),
        oracles.softmax_nll(target, prediction, **parameters),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        numpy(distribution.nll(y[:, None])), numpy(distribution.nll(y))
    )


def test_softmax_labels_of_images(rng):
    logits = rng.normal(size=(2, 4, 5, 3)).astype("float32")
    y = rng.integers(0, 3, size=(2, 4, 5))
    nll = numpy(likelihoods.Softmax(logits).nll(y))
    np.testing.assert_allclose(
        nll, oracles.softmax_nll(y, logits, 1.0), rtol=1e-5
    )


def test_bernoulli_matches_the_oracle(rng, double_precision):
    y, prediction, parameters = make_case("bernoulli", rng)
    distribution = build("bernoulli", prediction, parameters)
    np.testing.assert_allclose(
        numpy(distribution.nll(y)),
        oracles.bernoulli_nll(y, prediction, **parameters),
        rtol=1e-9,
    )
    p = numpy(distribution.mean())
    oracle = stats.bernoulli(p)
    for value in (-0.5, 0.0, 0.5, 1.0):
        at = np.full_like(p, value)
        np.testing.assert_allclose(numpy(distribution.cdf(at)), oracle.cdf(at))
    np.testing.assert_array_equal(
        numpy(distribution.quantile(0.4)), oracle.ppf(0.4)
    )


@pytest.mark.parametrize("name", ["softmax", "bernoulli"])
def test_class_frequencies_follow_the_mean(name, rng):
    _, prediction, parameters = make_case(name, rng, rows=2)
    distribution = build(name, prediction, parameters)
    draw = numpy(distribution.sample(20_000, seed=1))
    if name == "softmax":
        draw = np.eye(3)[draw]
    np.testing.assert_allclose(
        draw.mean(axis=0), numpy(distribution.mean()), atol=0.015
    )


@pytest.mark.parametrize("name", ALL)
def test_gradients_match_central_differences(name, rng, double_precision):
    y, prediction, parameters = make_case(name, rng, rows=3)
    names = list(parameters)

    def nll(prediction, *values):
        distribution = likelihoods.get(name)(
            prediction, **dict(zip(names, values, strict=True))
        )
        return distribution.nll(y)

    arrays = (prediction, *parameters.values())
    expected = central_differences(nll, *arrays)
    for found, oracle in zip(gradients(nll, *arrays), expected, strict=True):
        np.testing.assert_allclose(found, oracle, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_float32_stays_finite_far_out(name):
    likelihood = likelihoods.get(name)
    prediction = np.array([[-1e4, 0.0, 1e4], [1e-6, 3.0, 70.0]], "float32")
    prediction = contracts.predictions_for(likelihood, prediction)
    y = np.array([0, 2]) if name == "softmax" else np.ones((2, 3), "float32")
    if name == "beta":
        y = y / 2
    lowest = {
        p.name: max(p.constraint.low + 1e-3, 1e-3)
        for p in likelihood.parameters
    }
    nll = numpy(likelihood(prediction, **lowest).nll(y))
    assert np.all(np.isfinite(nll))


def test_student_t_is_exact_for_many_degrees_of_freedom():
    y = np.array([[0.5], [3.0]], dtype="float32")
    for df in (0.5, 1.0, 30.0, 1e4, 1e7):
        found = numpy(likelihoods.StudentT(np.zeros_like(y), df=df).nll(y))
        oracle = -stats.t(df).logpdf(y.astype("float64"))
        np.testing.assert_allclose(found, oracle, rtol=3e-6)


def test_means_that_do_not_exist_are_nan():
    prediction = np.ones((2, 1), dtype="float32")
    assert np.all(
        np.isnan(numpy(likelihoods.StudentT(prediction, df=1.0).mean()))
    )
    assert np.all(
        np.isnan(numpy(likelihoods.RobustRho(prediction, shape=0.0).mean()))
    )
    np.testing.assert_array_equal(
        numpy(likelihoods.StudentT(prediction, df=2.0).mean()), prediction
    )


def test_parameters_may_not_enlarge_the_prediction():
    prediction = np.zeros((4, 1), "float32")
    with pytest.raises(ValueError, match="`scale`.*Received"):
        likelihoods.Normal(prediction, scale=np.ones((4, 3), "float32"))
    with pytest.raises(ValueError, match="`scale`.*Received"):
        likelihoods.Normal(prediction, scale=np.ones(4, "float32"))
    with pytest.raises(ValueError, match="`scale` must be > 0. Received: 0"):
        likelihoods.Normal(prediction, scale=0)
    with pytest.raises(ValueError, match="`shape` must be >= 0"):
        likelihoods.RobustRho(prediction, shape=-1.0)
    with pytest.raises(ValueError, match=r"\['scale'\]. Received: 'width'"):
        likelihoods.Normal(prediction, width=1.0)


def test_softmax_refuses_labels_of_another_shape():
    softmax = likelihoods.Softmax(np.zeros((4, 3), "float32"))
    with pytest.raises(ValueError, match=r"shape \(4,\) or \(4, 3\).*Received"):
        softmax.nll(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="one logit, use Bernoulli"):
        likelihoods.Softmax(np.zeros((4, 1), "float32")).nll(np.zeros(4))
    with pytest.raises(NotImplementedError, match="Softmax has no `cdf`"):
        softmax.cdf(np.zeros(4))


def test_interval_and_names_are_checked():
    with pytest.raises(ValueError, match="`coverage`.*Received: 1.5"):
        likelihoods.Normal(np.zeros((1, 1), "float32")).interval(1.5)
    with pytest.raises(ValueError, match="Received: 'gauss'"):
        likelihoods.get("gauss")
    with pytest.raises(ValueError, match="`dimension`.*Received: 'channel'"):
        likelihoods.Softmax.shape_of("temperature", (None, 3), "channel")


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="TFP is TensorFlow's"
)
@pytest.mark.parametrize(
    "name", [n for n in ALL if n not in ("robust_rho", "huber")]
)
def test_to_tfp_has_the_same_log_prob(name, rng):
    pytest.importorskip("tensorflow_probability")
    y, prediction, parameters = make_case(name, rng)
    distribution = build(name, prediction, parameters)
    np.testing.assert_allclose(
        -numpy(distribution.to_tfp().log_prob(y)),
        numpy(distribution.nll(y)),
        rtol=1e-6,
    )


@pytest.mark.skipif(
    keras.backend.backend() == "tensorflow", reason="works there"
)
def test_to_tfp_names_the_backend_it_needs():
    with pytest.raises(RuntimeError, match="TensorFlow.*Received"):
        likelihoods.Normal(np.zeros((1, 1), "float32")).to_tfp()


def test_a_new_likelihood_is_one_class(double_precision):
    """`standard_nll` is enough for cdf, quantile and samples."""
    from keras_likelihood.constraints import Exp

    class HyperbolicSecant(likelihoods.LocationScale):
        parameters = (likelihoods.Parameter("scale", Exp()),)

        def standard_nll(self, z):
            return z + ops.softplus(-2 * z) + math.log(math.pi / 2)

    y = np.linspace(-5, 5, 11)[:, None]
    mine = likelihoods.get("hyperbolic_secant")(
        ops.ones((11, 1), dtype="float64"), scale=2.0
    )
    oracle = stats.hypsecant(1.0, 2.0)
    np.testing.assert_allclose(numpy(mine.nll(y)), -oracle.logpdf(y))
    np.testing.assert_allclose(numpy(mine.cdf(y)), oracle.cdf(y), atol=1e-9)
    np.testing.assert_allclose(
        numpy(mine.quantile(0.3)), oracle.ppf(0.3), atol=1e-7
    )
