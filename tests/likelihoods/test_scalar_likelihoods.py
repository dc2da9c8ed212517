"""Counts, positive numbers, shares and angles: their special properties."""

import numpy as np
import pytest
from keras import ops
from scipy import integrate, special

from keras_likelihood import likelihoods
from tests import oracles
from tests.autodiff import (
    central_differences,
    gradients,
    values_and_gradients,
)
from tests.contracts import as_numpy

POSITIVE = ["exponential", "gamma", "log_normal", "weibull"]
COUNTS = sorted(oracles.COUNTS)
ORACLES = oracles.CONTINUOUS | oracles.COUNTS
DOMAINS = {
    # Lowest and highest value of the prediction and of the parameters.
    "poisson": {"prediction": (1e-3, 1e4)},
    "negative_binomial": {"prediction": (1e-3, 1e4), "dispersion": (1e-4, 30)},
    "exponential": {"prediction": (1e-6, 1e6)},
    "gamma": {"prediction": (1e-6, 1e6), "shape": (0.1, 1e4)},
    "log_normal": {"prediction": (1e-6, 1e6), "scale": (0.02, 3)},
    "weibull": {"prediction": (1e-6, 1e6), "shape": (0.2, 50)},
    "beta": {"prediction": (0.05, 0.95), "concentration": (0.5, 1e4)},
    "von_mises": {"prediction": (0.1, 3), "concentration": (0.02, 1e4)},
    "logistic": {"prediction": (0.1, 100), "scale": (0.01, 100)},
    "huber": {
        "prediction": (0.1, 100),
        "threshold": (0.05, 10),
        "scale": (0.01, 100),
    },
}
NAMES = sorted(DOMAINS)


def wide_case(name, rng, rows=60):
    """Prediction and parameters over many orders of magnitude."""
    drawn = {
        key: np.exp(rng.uniform(*np.log(ends), size=(rows, 1)))
        for key, ends in DOMAINS[name].items()
    }
    return drawn.pop("prediction"), drawn


def build(name, prediction, parameters, dtype="float64"):
    return likelihoods.get(name)(
        ops.convert_to_tensor(prediction.astype(dtype)),
        **{
            k: ops.convert_to_tensor(v.astype(dtype))
            for k, v in parameters.items()
        },
    )


def draw(name, rng, prediction, parameters):
    """Random levels and their quantiles, which are likely targets."""
    p = rng.uniform(0.001, 0.999, size=prediction.shape)
    wide = build(name, prediction, parameters)
    return p, as_numpy(wide.quantile(ops.convert_to_tensor(p)))


def draw_cheaply(name, rng, prediction, parameters):
    """The same targets by SciPy, if it has them."""
    wide = {k: v.astype("float64") for k, v in parameters.items()}
    oracle = ORACLES[name](prediction.astype("float64"), **wide)
    if not hasattr(oracle, "ppf"):
        return draw(name, rng, prediction, parameters)[1]
    return oracle.ppf(rng.uniform(0.001, 0.999, size=prediction.shape))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMES)
def test_wide_ranges_match_the_oracle(name, rng, double_precision):
    prediction, parameters = wide_case(name, rng)
    oracle = ORACLES[name](prediction, **parameters)
    p, y = draw(name, rng, prediction, parameters)
    found = build(name, prediction, parameters)
    log_density = oracle.logpmf if name in COUNTS else oracle.logpdf
    np.testing.assert_allclose(
        as_numpy(found.nll(y)), -log_density(y), rtol=1e-7, atol=2e-7
    )
    np.testing.assert_allclose(
        as_numpy(found.cdf(y)), oracle.cdf(y), rtol=0, atol=2e-8
    )
    if hasattr(oracle, "ppf"):
        np.testing.assert_allclose(y, oracle.ppf(p), rtol=1e-6)
    np.testing.assert_allclose(as_numpy(found.mean()), prediction)


@pytest.mark.parametrize("name", NAMES)
def test_float32_is_as_good_as_its_inputs(name, rng, double_precision):
    """The error is that of rounding the inputs a few times."""
    drawn = [v.astype("float32") for v in flat(*wide_case(name, rng))]
    prediction, parameters = drawn[0], named(name, drawn[1:])
    y = draw_cheaply(name, rng, prediction, parameters).astype("float32")
    if name == "beta":
        y = np.clip(y, 1e-30, 1 - 2.0**-24)
    elif name in POSITIVE:
        y = np.maximum(y, 1e-30)

    def nll(y, *values):
        return build_from(name, *values).nll(y)

    wide = [a.astype("float64") for a in (y, *drawn)]
    expected, slopes = values_and_gradients(nll, *wide)
    found = as_numpy(nll(*(ops.convert_to_tensor(a) for a in (y, *drawn))))
    if name in COUNTS:
        slopes[0] = 0 * slopes[0]
    slack = sum(np.abs(g * a) for g, a in zip(slopes, wide, strict=True))
    slack = 5e-6 + 2e-6 * np.abs(expected) + 5e-7 * slack
    assert np.all(np.abs(found - expected) <= slack)


def flat(prediction, parameters):
    return [prediction, *parameters.values()]


def named(name, values):
    names = [p.name for p in likelihoods.get(name).parameters]
    return dict(zip(names, values, strict=True))


def build_from(name, prediction, *values):
    return likelihoods.get(name)(prediction, **named(name, values))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["gamma", "beta", "negative_binomial"])
def test_the_cdf_has_every_gradient(name, rng, double_precision):
    """Also w.r.t. the shapes, for which backends have few derivatives."""
    arrays = flat(*wide_case(name, rng, rows=5))
    y = draw_cheaply(name, rng, arrays[0], named(name, arrays[1:]))

    def cdf(*values):
        return build_from(name, *values).cdf(y)

    # Steps are relative, because arrays span orders of magnitude.
    def by_logarithm(*logs):
        return cdf(*(ops.exp(x) for x in logs))

    logs = [np.log(a) for a in arrays]
    expected = central_differences(by_logarithm, *logs)
    found = gradients(by_logarithm, *logs)
    for mine, oracle in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, oracle, rtol=1e-4, atol=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["gamma", "beta", "von_mises"])
def test_the_quantile_has_every_gradient(name, rng, double_precision):
    """The cdf of a quantile depends only on p, whatever the parameters."""
    arrays = flat(*wide_case(name, rng, rows=5))
    p = rng.uniform(0.1, 0.9, size=arrays[0].shape)

    def again(p, *values):
        distribution = build_from(name, *values)
        return distribution.cdf(distribution.quantile(p))

    by_p, *others = gradients(again, p, *arrays)
    np.testing.assert_allclose(by_p, 1, rtol=1e-6)
    for gradient, array in zip(others, arrays, strict=True):
        np.testing.assert_allclose(gradient * array, 0, atol=1e-6)


@pytest.mark.few(0)
@pytest.mark.parametrize(
    "name, parameter, values",
    [
        ("von_mises", "concentration", np.geomspace(10, 1000, 200)),
        ("robust_rho", "shape", np.geomspace(4, 60, 200)),
    ],
)
def test_quantiles_of_densities_that_underflow_soon(name, parameter, values):
    """Newton's steps are tiny where the tail is 0 in float32."""
    values = values.astype("float32")[:, None]
    found = likelihoods.get(name)(np.zeros_like(values), **{parameter: values})
    for p in (2e-5, 0.01, 0.1122, 0.8878, 0.99):
        p = np.full_like(values, p)
        np.testing.assert_allclose(found.cdf(found.quantile(p)), p, rtol=2e-3)


INFORMATION = [
    ("poisson", 3.0, {}),
    ("negative_binomial", 4.0, {"dispersion": 0.7}),
    ("exponential", 2.0, {}),
    ("gamma", 2.0, {"shape": 3.0}),
    ("log_normal", 2.0, {"scale": 0.5}),
    ("weibull", 2.0, {"shape": 1.7}),
    ("beta", 0.3, {"concentration": 7.0}),
    ("von_mises", 0.4, {"concentration": 2.0}),
    ("huber", 0.0, {"threshold": 1.2, "scale": 1.0}),
]


@pytest.mark.parametrize("name, at, parameters", INFORMATION)
def test_information_is_the_mean_squared_gradient(
    name, at, parameters, double_precision
):
    p = (np.arange(4000) + 0.5) / 4000
    if name in COUNTS:
        y = np.arange(400.0)[:, None]
        weight = ORACLES[name](at, **parameters).pmf(y)
    elif hasattr(ORACLES[name](at, **parameters), "ppf"):
        y = ORACLES[name](at, **parameters).ppf(p[:, None])
        weight = 1 / 4000
    else:
        tensor = ops.full((4000, 1), at, dtype="float64")
        y = likelihoods.get(name)(tensor, **parameters).quantile(
            ops.convert_to_tensor(p[:, None])
        )
        y, weight = as_numpy(y), 1 / 4000
    mean = np.full_like(y, at)
    (score,) = gradients(
        lambda m: likelihoods.get(name)(m, **parameters).nll(y), mean
    )
    first = ops.convert_to_tensor(mean[:2])
    information = likelihoods.get(name)(first, **parameters).information()
    information = as_numpy(information)
    assert information.shape == (2, 1)
    expected = np.sum(score**2 * weight)
    np.testing.assert_allclose(information[0, 0], expected, rtol=5e-3)
    np.testing.assert_allclose(np.sum(score * weight), 0, atol=5e-3)


@pytest.mark.parametrize("threshold", [0.3, 1.345, 4.0])
def test_beta_weights_of_huber(threshold, double_precision):
    found = likelihoods.Huber(
        ops.zeros((1, 1), dtype="float64"), threshold=threshold
    )

    def nll(z):
        return z * z / 2 if z < threshold else threshold * z - threshold**2 / 2

    def moment(f):
        return sum(
            integrate.quad(lambda z: f(z) * np.exp(-nll(z)), *ends)[0]
            for ends in ((0, threshold), (threshold, np.inf))
        )

    second = moment(lambda z: min(z, threshold) ** 2)
    third = moment(lambda z: z * min(z, threshold) ** 3)
    np.testing.assert_allclose(
        as_numpy(found.scale_exponent()), 0.5 + 0.5 * third / second, rtol=1e-7
    )


def extremes(name, rng, count=100_000):
    """Inputs far outside of the usual range, zeros included."""
    ends = {
        "prediction": (-25, 25),
        "dispersion": (-25, 9),
        "shape": (-4, 9),
        "concentration": (-4, 9),
        "scale": (-4, 9),
        "threshold": (-6, 6),
    }
    names = ["prediction", *(p.name for p in likelihoods.get(name).parameters)]
    drawn = [np.exp(rng.uniform(*ends[n], size=(count, 1))) for n in names]
    y = np.exp(rng.uniform(-25, 25, size=(count, 1)))
    if name in COUNTS:
        y = np.floor(np.minimum(y, 1e6))
    if name == "beta":
        drawn[0] = special.expit(rng.uniform(-25, 25, size=(count, 1)))
        y = np.clip(special.expit(rng.uniform(-15, 15, (count, 1))), 1e-8, None)
        y = np.minimum(y, 1 - 1e-6)
    elif likelihoods.get(name).prediction_constraint is None:
        y = rng.choice([-1, 1], size=y.shape) * y
    else:
        drawn[0][:100] = 0.0
    return y.astype("float32"), [d.astype("float32") for d in drawn]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_nan(name, dtype, rng):
    y, drawn = extremes(name, rng)

    def nll(*values):
        *values, y = values
        values = [ops.cast(v, dtype) for v in values]
        return ops.cast(build_from(name, *values).nll(y), "float32")

    found, slopes = values_and_gradients(nll, *drawn, given=[y])
    assert not np.any(np.isnan(found))
    for gradient in slopes:
        assert np.all(np.isfinite(gradient))
