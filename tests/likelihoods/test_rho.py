"""The robust loss, one test per property, singular points included."""

import mpmath as mp
import numpy as np
import pytest
from keras import ops

from keras_likelihood.likelihoods import RobustRho, log_partition, robust_rho
from keras_likelihood.likelihoods.log_partition import value_and_slope
from keras_likelihood.likelihoods.robust_rho import rho_and_slopes
from tests.autodiff import (
    central_differences,
    gradients,
    values_and_gradients,
)

SHAPES = [0, 1e-6, 1e-3, 0.1, 0.5, 1, 1.5, 1.9, 1.999]
SHAPES += [2, 2.001, 2.1, 2.5, 3, 4, 8]


def loss(x, shape, scale=1.0):
    """Rho, the NLL without its normalizer."""
    tensors = (ops.convert_to_tensor(v, dtype=x.dtype) for v in (shape, scale))
    return ops.convert_to_numpy(
        rho_and_slopes(ops.convert_to_tensor(x), *tensors)[0]
    )


def nll(x, shape, scale):
    return RobustRho(ops.zeros_like(x), shape=shape, scale=scale).nll(x)


def exact(x, shape, scale):
    """`(rho, d/dx, d/dshape, d/dscale)` from the definition, 40 digits."""
    x, shape, scale = (mp.mpf(float(v)) for v in (x, shape, scale))
    s = (x / scale) ** 2

    def value(shape):
        b = abs(shape - 2)
        if b == 0:
            return s / 2
        if shape == 0:
            return mp.log1p(s / 2)
        return b / shape * ((s / b + 1) ** (shape / 2) - 1)

    with mp.workdps(60):
        step = mp.mpf(10) ** -15
        by_shape = (value(shape + step) - value(shape - step)) / (2 * step)
        b = abs(shape - 2)
        v = (s / b + 1) ** (shape / 2 - 1) if b else mp.mpf(1)
        results = value(shape), x / scale**2 * v, by_shape, -s * v / scale
    return [float(r) for r in results]


@pytest.fixture
def grid(rng):
    """Quantised, so that 0, 2 and x = 0 occur; float32."""
    x = np.round(rng.normal(scale=6, size=2000)) / 4
    shape = np.round(rng.uniform(-4, 8, size=2000) * 2) / 2
    scale = np.exp(rng.normal(size=2000))
    assert np.any(x == 0) and np.any(shape == 0) and np.any(shape == 2)
    return tuple(v.astype("float32") for v in (x, shape, scale))


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_float32_matches_forty_digits(shape, is_apart, monkeypatch):
    for module in (robust_rho, log_partition):
        monkeypatch.setattr(module, "computes_apart", lambda: is_apart)
    x = np.float32(0.7) * np.logspace(-4, 4, 33, dtype="float32")
    shapes = np.full_like(x, shape)
    scale = np.full_like(x, 0.7)
    oracle = [exact(*p) for p in zip(x, shapes, scale, strict=True)]
    value, by_x, by_shape, by_scale = np.array(oracle).T
    # The exponents of large shapes multiply rounding errors.
    exactly = 2e-6 if shape <= 3 else 8e-6
    np.testing.assert_allclose(loss(x, shapes, scale), value, rtol=exactly)
    found = gradients(nll, *(v[:, None] for v in (x, shapes, scale)))
    found = [v[:, 0] for v in found]
    np.testing.assert_allclose(found[0], by_x, rtol=2.5 * exactly)
    np.testing.assert_allclose(
        found[2], by_scale + 1 / scale, rtol=2.5 * exactly, atol=1e-6
    )
    if shape == 2:
        assert np.all(np.isfinite(found[1]))
        return
    slope = value_and_slope(ops.convert_to_tensor(shapes))[1]
    by_shape = by_shape + ops.convert_to_numpy(slope)
    error = np.abs(found[1] - by_shape)
    assert np.all((error <= 1e-6) | (error <= 1e-4 * np.abs(by_shape)))


def test_float64_gradients_match_differences(rng, double_precision):
    x = rng.normal(size=12) * 3
    shape = [1e-4, 1e-3, 0.02, 0.3, 1, 1.6, 1.8, 1.99, 2.2, 3, 4.5, 6.0]
    scale = rng.uniform(0.5, 2, size=12)
    shape = np.array(shape)
    expected = central_differences(nll, x, shape, scale, step=1e-6)
    found = gradients(nll, x, shape, scale)
    for mine, oracle in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, oracle, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("draws", [(), (2,)])
@pytest.mark.parametrize(
    "shape_of_shape, shape_of_scale",
    [((), ()), ((1, 1), (1, 4)), ((3, 1), ()), ((3, 4), (1, 4))],
)
def test_gradients_are_summed_to_the_parameters(
    shape_of_shape, shape_of_scale, draws, rng
):
    x = rng.normal(size=(*draws, 3, 4)).astype("float32")
    shape = rng.uniform(0.2, 2.8, size=shape_of_shape).astype("float32")
    scale = rng.uniform(0.5, 2, size=shape_of_scale).astype("float32")

    def around_zero(x, shape, scale):
        none = ops.zeros((3, 4), dtype=x.dtype)
        return RobustRho(none, shape=shape, scale=scale).nll(x)

    found = gradients(around_zero, x, shape, scale)
    full = gradients(
        nll, x, *(np.broadcast_to(p, x.shape).copy() for p in (shape, scale))
    )
    np.testing.assert_allclose(found[0], full[0], rtol=1e-5)
    for mine, each, parameter in zip(
        found[1:], full[1:], (shape, scale), strict=True
    ):
        assert mine.shape == parameter.shape
        missing = x.ndim - parameter.ndim
        axes = tuple(range(missing)) + tuple(
            i + missing for i, size in enumerate(parameter.shape) if size == 1
        )
        total = each.sum(axis=axes).reshape(parameter.shape)
        np.testing.assert_allclose(mine, total, rtol=1e-4, atol=1e-5)


def test_it_is_a_loss(grid):
    x, shape, scale = grid
    value = loss(x, shape, scale)
    assert np.all(value >= 0)
    np.testing.assert_array_equal(value, loss(-x, shape, scale))
    np.testing.assert_array_equal(value[x == 0], 0)
    assert np.all(value[x != 0] > 0)


def test_it_grows_with_the_residual(grid):
    x, shape, scale = grid
    nearer, farther = (loss(k * x, shape, scale) for k in (1.0, 1.1))
    assert np.all(nearer <= farther * (1 + 1e-6))


def test_it_grows_with_the_shape(grid):
    x, shape, scale = grid
    for step in (1e-3, 0.5):
        larger = loss(x, shape + np.float32(step), scale)
        assert np.all(loss(x, shape, scale) <= larger * (1 + 1e-5))


def test_only_the_ratio_to_the_scale_counts(grid):
    x, shape, scale = grid
    for factor in (0.125, 3.0):
        np.testing.assert_allclose(
            loss(factor * x, shape, factor * scale),
            loss(x, shape, scale),
            rtol=2e-5,
        )


def test_negative_shapes_are_bounded(grid):
    x, _, scale = grid
    for shape in (-0.5, -2.0, -8.0, -np.inf):
        bound = 1.0 if np.isinf(shape) else (shape - 2) / shape
        assert np.all(loss(1e3 * x, shape, scale) <= bound * (1 + 1e-6))


@pytest.mark.parametrize(
    "shape, named",
    [
        (2.0, lambda s: s / 2),
        (1.0, lambda s: np.sqrt(s + 1) - 1),
        (0.0, lambda s: np.log1p(s / 2)),
        (-2.0, lambda s: 2 * s / (s + 4)),
        (-np.inf, lambda s: -np.expm1(-s / 2)),
        (np.inf, lambda s: np.expm1(s / 2)),
    ],
)
def test_special_shapes_are_named_losses(shape, named):
    x = np.linspace(-6, 6, 49).astype("float32")
    oracle = named((x.astype("float64") / 1.5) ** 2)
    np.testing.assert_allclose(
        loss(x, shape, 1.5), oracle, rtol=3e-6, atol=1e-7
    )
    near = np.clip(shape, -1e9, 1e9) + 1e-6
    np.testing.assert_allclose(loss(x, near, 1.5), oracle, rtol=1e-4)


def test_an_infinite_residual_has_the_slopes_of_a_huge_one():
    x = np.array([1e30, np.inf], "float32")
    arrays = x, np.full(2, 1.2, "float32"), np.full(2, 0.5, "float32")
    assert np.isinf(ops.convert_to_numpy(nll(*arrays))[1])
    for huge, infinite in gradients(nll, *arrays):
        assert huge == infinite


@pytest.mark.parametrize("shape", [0, 1, 1.8, 2, 3, 8, np.inf])
@pytest.mark.parametrize("x", [0.0, 1e-30, 1e-20, 1e4, 1e15, 1e30])
def test_gradients_stay_finite(shape, x):
    arrays = [np.full(2, v, "float32") for v in (x, shape, 0.5)]
    found, slopes = values_and_gradients(nll, *arrays)
    assert np.all(np.isfinite(found))
    assert np.all(np.isfinite(slopes))
    if x == 0:
        np.testing.assert_array_equal(slopes[0], 0)


def test_a_scale_that_is_not_positive_is_an_error():
    with pytest.raises(ValueError, match="`scale`.*> 0.*Received: -1"):
        RobustRho(np.ones(2), scale=-1.0)


def test_the_likelihood_follows_its_formula(rng):
    x, scale = rng.standard_cauchy(400), np.exp(rng.normal(size=400))
    shape = np.round(rng.uniform(0, 3, size=400) * 4) / 4
    inputs = [v.astype("float32")[:, None] for v in (x, shape, scale)]
    found = [ops.convert_to_numpy(nll(*inputs)), *gradients(nll, *inputs)]
    wide = [v.astype("float64") for v in inputs]
    s = (wide[0] / wide[2]) ** 2
    b = np.maximum(np.abs(wide[1] - 2), 1e-9)
    by_x = (1 + s / b) ** (wide[1] / 2 - 1) * wide[0] / wide[2] ** 2
    np.testing.assert_allclose(found[1], by_x, rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(
        found[3], (1 - wide[0] * by_x) / wide[2], rtol=2e-5, atol=1e-5
    )
    a = np.maximum(wide[1], 1e-9)
    rho = b / a * np.expm1(a / 2 * np.log1p(s / b))
    constant = ops.convert_to_numpy(
        value_and_slope(ops.convert_to_tensor(inputs[1]))[0]
    )
    expected = rho + np.log(wide[2]) + constant
    np.testing.assert_allclose(found[0], expected, rtol=3e-6, atol=1e-6)
    assert np.all(np.isfinite(found[2]))
