"""Numerically hard points of the likelihoods: tails, limits, dtypes."""

import keras
import mpmath as mp
import numpy as np
import pytest
from keras import ops
from scipy import special, stats

from keras_likelihood import likelihoods
from keras_likelihood.likelihoods.incomplete import beta_tails, gamma_tails
from keras_likelihood.likelihoods.log_partition import log_partition
from keras_likelihood.likelihoods.special import (
    normalizer_excess,
    stirling_remainder,
)
from tests.autodiff import gradients

ALL = ["bernoulli", "laplace", "normal", "robust_rho", "softmax", "student_t"]
NARROW = ["float16", "bfloat16"]
TAILS = np.array([1e-30, 1e-12, 1e-8, 1e-4, 0.07, 0.08, 0.3], "float32")


def numpy(x):
    return ops.convert_to_numpy(x)


def tensor(x):
    return ops.convert_to_tensor(x, dtype="float32")


def column(values, dtype="float32"):
    return np.asarray(values, dtype).reshape(-1, 1)


def test_incomplete_functions_of_all_shapes():
    """Shapes down to 1e-6, whose tails are long compared to their mode."""
    random = np.random.default_rng(0)
    a, b, x = 10 ** random.uniform([-6, -6, -7], [4, 4, 0], (3000, 3)).T
    a, b, x = (v.astype("float32").astype("float64") for v in (a, b, x))
    rest = (1 - x).astype("float32").astype("float64")
    found = beta_tails(*map(tensor, (a, b, x, rest)))
    expected = special.betainc(a, b, x), special.betaincc(a, b, x)
    mirrored = beta_tails(*map(tensor, (b, a, rest, x)))
    for ours, true in zip(found + mirrored[::-1], expected * 2, strict=True):
        np.testing.assert_allclose(np.exp(numpy(ours)), true, atol=2e-5)
    x = x * 100
    found = gamma_tails(tensor(a), tensor(x))
    x = np.float32(x).astype("float64")
    expected = special.gammainc(a, x), special.gammaincc(a, x)
    for ours, true in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.exp(numpy(ours)), true, atol=2e-5)


def test_a_small_tail_next_to_a_tiny_shape():
    """One minus the other tail has too few digits."""
    a = 10.0 ** -np.arange(3, 9)
    b, x = np.array([[[0.05], [1.0], [300.0]], [[1e-9], [1e-15], [1e-20]]])
    a, b, x = (v.astype("float32").astype("float64") for v in (a, b, x))
    expected = special.betaincc(a, b, x[:, None])
    arguments = np.broadcast_arrays(a, b, x[:, None], 1.0)
    _, above = beta_tails(*map(tensor, arguments))
    below, _ = beta_tails(*(tensor(arguments[i]) for i in (1, 0, 3, 2)))
    for found in (above, below):
        found = np.exp(numpy(found))
        np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("dtype, error", [("float32", 1e-4), ("float64", 1e-7)])
def test_slopes_of_log_gammas(dtype, error, double_precision):
    a = np.logspace(-3, 5, 200).astype(dtype)
    wide = a.astype("float64")
    by_half = special.digamma(wide) - special.digamma(wide + 0.5)
    for function, expected in [
        (stirling_remainder, special.digamma(wide) - np.log(wide) + 0.5 / wide),
        (normalizer_excess, 0.5 / wide + by_half),
    ]:
        (found,) = gradients(function, a)
        # It is a sum of terms of order 1.
        atol = 10 * np.finfo(dtype).eps
        np.testing.assert_allclose(found, expected, rtol=error, atol=atol)


def test_values_of_log_gammas(double_precision):
    """The fitted series, on both sides of 3 and far away."""
    with mp.workdps(40):
        for a in [1e-3, 0.7, 2.999, 3.0, 3.001, 5.0, 12.5, 700.0, 1e5]:
            exact, x = mp.loggamma(a), mp.mpf(a)
            constant = mp.log(2 * mp.pi) / 2
            stirling = exact - (x - mp.mpf(0.5)) * mp.log(x) + x - constant
            half = mp.log(x) / 2 + exact - mp.loggamma(x + mp.mpf(0.5))
            found = [
                float(f(ops.convert_to_tensor(a, dtype="float64")))
                for f in (stirling_remainder, normalizer_excess)
            ]
            expected = float(stirling), float(half)
            np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.few(0)
def test_a_range_far_beyond_a_normal_distribution():
    """There the outcomes are exponential with the rate `z / scale`."""
    z, scale = column([100.0, 150.0, 748.0]), np.float32(0.0125)
    made = likelihoods.Truncated("normal", low=-3.0)
    made = made(-3 - scale * z, scale=scale)
    expected = scale / z
    np.testing.assert_allclose(numpy(made.mean()) + 3, expected, rtol=0.01)
    np.testing.assert_allclose(numpy(made.std()), expected, rtol=0.01)
    median = numpy(made.quantile(0.5)) + 3
    np.testing.assert_allclose(median, np.log(2) * expected, rtol=0.02)


def test_von_mises_of_many_turns():
    y, prediction = column([330.53555, -434.72955]), column([16.416643, -1.155])
    kappa = column([3809.19, 4687.245])
    made = likelihoods.VonMises(prediction, concentration=kappa)
    y, prediction, kappa = (v.astype("float64") for v in (y, prediction, kappa))
    angle = np.angle(np.exp(1j * (y - prediction)))
    expected = 2 * kappa * np.sin(angle / 2) ** 2
    expected = expected + np.log(2 * np.pi * special.i0e(kappa))
    np.testing.assert_allclose(numpy(made.nll(y)), expected, atol=1e-4)


def rho_nll(x, shape, scale):
    made = likelihoods.RobustRho(ops.zeros_like(x), shape=shape, scale=scale)
    return made.nll(x)


@pytest.mark.parametrize("shape", [1e4, 1e9, np.inf])
def test_rho_of_huge_shapes_is_the_exponential(shape, double_precision):
    z = np.array([-12.0, -5.0, -4.01, 0.5, 4.0, 4.5, 8.0, 11.0])
    x, scale = (1.5 * z).astype("float32"), np.float32(1.5)
    s = (x.astype("float64") / 1.5) ** 2
    expected, slope = np.expm1(s / 2), np.exp(s / 2) * x / 1.5**2
    if np.isfinite(shape):
        b = shape - 2
        expected = b / shape * np.expm1(shape / 2 * np.log1p(s / b))
        slope = np.exp((shape / 2 - 1) * np.log1p(s / b)) * x / 1.5**2
    shapes = np.full_like(x, shape)
    scales = np.full_like(x, scale)
    expected = expected + np.log(1.5) + numpy(log_partition(shapes))
    found = numpy(rho_nll(x, shapes, scales))
    # The exponential multiplies the rounding of its argument, up to 72 here.
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    by_x, *others = gradients(rho_nll, x, shapes, scales)
    np.testing.assert_allclose(by_x, slope, rtol=2e-5)
    assert not np.any(np.isnan(others))
    # Float64 continues where float32 underflows.
    x = np.array([30.0])
    found = numpy(rho_nll(x, np.full(1, np.inf), np.ones(1)))
    np.testing.assert_allclose(found, np.expm1(450.0), rtol=1e-7)


@pytest.mark.parametrize("shape", [3.0, 1e3, np.inf])
def test_rho_of_gross_outliers_is_never_cheap(shape):
    x = np.logspace(0, 35, 71, dtype="float32")
    shapes, scales = np.full_like(x, shape), np.ones_like(x)
    found = numpy(rho_nll(x, shapes, scales))
    assert np.all(found >= 0.4 * np.minimum(x, 1e3) ** 2)
    assert np.all(np.diff(found) >= -1e-5 * found[1:])
    for gradient in gradients(rho_nll, x, shapes, scales):
        assert np.all(np.isfinite(gradient))


def test_normal_quantile_keeps_float32_in_the_tails():
    p = np.concatenate([TAILS, 1 - TAILS[2:]])
    p[p == 1] = 1 - 6e-8
    distribution = likelihoods.Normal(np.zeros_like(column(p)))
    oracle = special.ndtri(p.astype("float64"))
    found = numpy(distribution.quantile(column(p)))[:, 0]
    np.testing.assert_allclose(found, oracle, rtol=5e-7)

    def quantile(p):
        return likelihoods.Normal(ops.zeros_like(p)).quantile(p)

    (slope,) = gradients(quantile, column(p))
    expected = 1 / stats.norm.pdf(oracle)
    np.testing.assert_allclose(slope[:, 0], expected, rtol=1e-5)
    ends = column([0.0, 0.5, 1.0])
    found = numpy(likelihoods.Normal(np.zeros_like(ends)).quantile(ends))
    np.testing.assert_array_equal(found[:, 0], [-np.inf, 0, np.inf])
    assert np.all(np.isfinite(gradients(quantile, ends)[0]))


def test_normal_quantile_has_all_digits_of_float64(double_precision):
    p = column(np.concatenate([TAILS, 1 - TAILS[1:], [0.5, 1e-300]]), "float64")
    distribution = likelihoods.Normal(
        ops.zeros((len(p), 1), dtype="float64"), scale=2.0
    )
    np.testing.assert_allclose(
        numpy(distribution.quantile(p)), 2 * special.ndtri(p), rtol=1e-14
    )


@pytest.mark.parametrize(
    "name, parameters, oracle",
    [
        ("laplace", {}, stats.laplace),
        ("student_t", {"df": 1.0}, stats.t(1)),
        ("student_t", {"df": 4.0}, stats.t(4)),
        ("student_t", {"df": 1e38}, stats.norm),
        ("robust_rho", {"shape": 2.0}, stats.norm),
    ],
)
def test_quantiles_keep_float32_in_the_tails(name, parameters, oracle):
    p = np.concatenate([TAILS, [1 - 6e-8]]).astype("float32")
    distribution = likelihoods.get(name)(
        np.zeros((len(p), 1), "float32"), **parameters
    )
    np.testing.assert_allclose(
        numpy(distribution.quantile(column(p)))[:, 0],
        oracle.ppf(p.astype("float64")),
        rtol=5e-6,
    )


@pytest.mark.few(0)
def test_robust_rho_at_shape_0_keeps_one_in_a_hundred_million():
    distribution = likelihoods.RobustRho(np.zeros((1, 1), "float32"), shape=0.0)
    np.testing.assert_allclose(
        numpy(distribution.quantile(1e-8)),
        2**0.5 * stats.cauchy.ppf(1e-8),
        rtol=5e-5,
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["normal", "laplace", "student_t"])
def test_an_interval_of_almost_everything_is_finite(name):
    zeros = np.zeros((2, 1), "float32")
    distribution = likelihoods.get(name)(zeros, scale=2.0)
    low, high = (numpy(v) for v in distribution.interval(1 - 2e-10))
    np.testing.assert_array_equal(low, -high)
    np.testing.assert_allclose(low, numpy(distribution.quantile(1e-10)))
    assert np.all(np.isfinite(high)) and np.all(low < 0)


@pytest.mark.parametrize("df", [1e-3, 30.0, 1e15, 1e38, np.inf])
def test_student_t_for_all_degrees_of_freedom(df):
    y = column([0.0, 1e-20, 0.5, 3.0, 40.0])
    dfs = np.full_like(y, df)

    def nll(prediction, df):
        return likelihoods.StudentT(prediction, df=df).nll(y)

    wide = y.astype("float64")
    oracle = stats.norm if df > 1e14 else stats.t(df)
    found = numpy(nll(*(ops.convert_to_tensor(a) for a in (0 * y, dfs))))
    np.testing.assert_allclose(found, -oracle.logpdf(wide), rtol=3e-6)
    by_prediction, by_df = gradients(nll, 0 * y, dfs)
    expected = -y if np.isinf(df) else -y * (1 + 1 / df) / (1 + wide**2 / df)
    np.testing.assert_allclose(by_prediction, expected, rtol=1e-5)
    assert np.all(np.isfinite(by_df))
    if df >= 1e15:
        np.testing.assert_allclose(by_df, 0, atol=1e-24)


@pytest.mark.parametrize("df", [0.5, 4.0, 1e38])
def test_student_t_far_out(df):
    """Finite for all residuals whose loss a float32 can hold."""
    y = column([1e15, 1e18])
    dfs = np.full_like(y, df)

    def nll(prediction, df, scale):
        return likelihoods.StudentT(prediction, df=df, scale=scale).nll(y)

    arrays = 0 * y, dfs, 1e-4 * np.ones_like(y)
    if df < 1e30:
        oracle = -stats.t(df, scale=1e-4).logpdf(y.astype("float64"))
        found = numpy(nll(*(ops.convert_to_tensor(a) for a in arrays)))
        np.testing.assert_allclose(found, oracle, rtol=1e-5)
    for gradient in gradients(nll, *arrays):
        assert not np.any(np.isnan(gradient))


def test_student_t_samples_of_very_many_degrees_are_normal():
    zeros = np.zeros((2000, 1), "float32")
    draw = numpy(likelihoods.StudentT(zeros, df=1e38).sample(seed=2))
    assert stats.kstest(draw.ravel(), "norm").pvalue > 1e-3


def test_laplace_gradient_at_no_residual_is_zero():
    y, zeros = column([0.0, 0.0, -0.0]), column([0.0, -0.0, 0.0])
    (found,) = gradients(lambda p: likelihoods.Laplace(p).nll(y), zeros)
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("temperature", [1e-38, 1e-40])
def test_softmax_of_almost_no_temperature(temperature):
    logits = np.array([[1.0, 2.0, -3.0], [1.0, 1.0, 0.0]], "float32")
    softmax = likelihoods.Softmax(
        logits, temperature=np.full((2, 1), temperature, "float32")
    )
    for labels in (np.array([1, 0]), np.eye(3)[[1, 0]]):
        nll = numpy(softmax.nll(labels))
        np.testing.assert_allclose(nll, [0, np.log(2)], atol=1e-6)
    assert np.all(numpy(softmax.nll(np.array([0, 2]))) > 1e20)
    expected = [[0, 1, 0], [0.5, 0.5, 0]]
    np.testing.assert_allclose(numpy(softmax.mean()), expected)
    assert numpy(softmax.sample(seed=1))[0] == 1


def narrow(array, dtype):
    return ops.cast(ops.convert_to_tensor(array), dtype)


@pytest.mark.few(0)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", ALL)
def test_half_precision_samples(name, dtype):
    distribution = likelihoods.get(name)(ops.zeros((200, 3), dtype=dtype))
    draw = distribution.sample(3, seed=1)
    if name != "softmax":
        assert keras.backend.standardize_dtype(draw.dtype) == dtype
    values = numpy(ops.cast(draw, "float32"))
    assert np.all(np.isfinite(values))
    twin = likelihoods.get(name)(ops.zeros((200, 3)))
    expected = numpy(ops.cast(twin.sample(3, seed=1), dtype))
    np.testing.assert_array_equal(numpy(draw), expected)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", ALL)
def test_half_precision_nll_and_gradients(name, dtype):
    """Values of float32, rounded once."""
    likelihood = likelihoods.get(name)
    prediction = np.array([[-250.0, 0.5, 90.0], [1e-6, 3.0, 0.0]], "float32")
    labels = np.array([0, 2])
    y = labels if name == "softmax" else np.full((2, 3), 1.0, "float32")
    names = [p.name for p in likelihood.parameters]
    width = 1 if likelihood.event_rank else 3
    values = [np.full((2, width), 1.25, "float32") for _ in names]

    def nll(dtype):
        def call(prediction, *values):
            values = (ops.cast(v, dtype) for v in values)
            distribution = likelihood(
                ops.cast(prediction, dtype),
                **dict(zip(names, values, strict=True)),
            )
            return distribution.nll(y)

        return call

    # The inputs themselves are rounded first.
    arrays = [
        numpy(ops.cast(narrow(a, dtype), "float32"))
        for a in (prediction, *values)
    ]
    tensors = [ops.convert_to_tensor(a) for a in arrays]
    found = nll(dtype)(*tensors)
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    expected = numpy(ops.cast(nll("float32")(*tensors), dtype))
    np.testing.assert_array_equal(numpy(found), expected)
    for mine, wide in zip(
        gradients(nll(dtype), *arrays),
        gradients(nll("float32"), *arrays),
        strict=True,
    ):
        assert np.all(np.isfinite(mine))
        np.testing.assert_allclose(mine, wide, rtol=0.01, atol=1e-6)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", ["normal", "robust_rho"])
def test_half_precision_quantiles(name, dtype):
    distribution = likelihoods.get(name)(ops.zeros((1, 1), dtype=dtype))
    twin = likelihoods.get(name)(ops.zeros((1, 1)))
    for p in (1e-8, 0.3):
        found = numpy(ops.cast(distribution.quantile(p), "float32"))
        expected = numpy(twin.quantile(p))
        np.testing.assert_allclose(found, expected, rtol=0.01)
    for found, expected in zip(
        distribution.interval(0.99), twin.interval(0.99), strict=True
    ):
        assert keras.backend.standardize_dtype(found.dtype) == dtype
        np.testing.assert_allclose(
            numpy(ops.cast(found, "float32")), numpy(expected), rtol=0.01
        )
