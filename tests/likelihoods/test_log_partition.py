"""log Z against 30-digit integrals and closed forms."""

import math

import mpmath as mp
import numpy as np
import pytest
from keras import ops
from scipy import special

from keras_likelihood.likelihoods.log_partition import (
    log_partition,
    value_and_slope,
)
from tests.autodiff import gradients

CLOSED_FORMS = {
    0.0: math.log(math.pi * math.sqrt(2)),
    1.0: math.log(2 * math.e * special.k1(1)),
    2.0: 0.5 * math.log(2 * math.pi),
}


def integral(shape):
    """log Z in 30 digits: trapezoidal rule after x = exp(pi/2 sinh(t))."""
    with mp.workdps(30):
        shape, step = mp.mpf(shape), mp.mpf(1) / 36
        b = abs(shape - 2)
        total = mp.mpf(0)
        for k in range(-160, 181):
            # Beyond an exponent of 60 the density is negligible.
            t = k * step
            x = mp.exp(mp.pi / 2 * mp.sinh(t))
            s = x * x
            if b == 0:
                value = s / 2
            elif shape == 0:
                value = mp.log1p(s / 2)
            elif mp.isinf(shape):
                value = mp.expm1(min(s / 2, 60))
            else:
                exponent = min(shape / 2 * mp.log1p(s / b), 60)
                value = b / shape * mp.expm1(exponent)
            total += x * mp.cosh(t) * mp.exp(-value)
        return mp.log(mp.pi * step * total)


def slope(shape, step=1e-9):
    with mp.workdps(30):
        shape, step = mp.mpf(shape), mp.mpf(step)
        difference = integral(shape + step) - integral(shape - step)
        return float(difference / (2 * step))


@pytest.mark.parametrize("shape", [*CLOSED_FORMS])
def test_the_oracle_knows_the_closed_forms(shape):
    assert float(integral(shape)) == pytest.approx(
        CLOSED_FORMS[shape], abs=1e-14
    )


@pytest.mark.parametrize("shape", [*CLOSED_FORMS])
def test_closed_forms(shape, double_precision):
    found = log_partition(ops.convert_to_tensor(np.array([shape])))
    assert ops.convert_to_numpy(found)[0] == pytest.approx(
        CLOSED_FORMS[shape], abs=1e-10
    )
    narrow = float(log_partition(np.float32(shape)))
    assert narrow == pytest.approx(CLOSED_FORMS[shape], rel=3e-7)


@pytest.mark.parametrize(
    "shape",
    [1e-9, 0.02, 0.37, 1.3, 1.93, 1.9999, 2.0001, 2.3, 4.7, 32.0, 1e4, 1e12]
    + [math.inf],
)
def test_values_match_thirty_digits(shape, double_precision):
    oracle = float(integral(shape))
    found = ops.convert_to_numpy(
        log_partition(ops.convert_to_tensor(np.array([shape])))
    )
    assert found[0] == pytest.approx(oracle, abs=1e-9)


@pytest.mark.parametrize(
    "shape", [1e-3, 0.02, 0.9, 1.6, 1.99, 1.999, 2.001, 2.02, 2.9, 9.0]
)
def test_gradients_match_thirty_digits(shape, double_precision):
    (found,) = gradients(log_partition, np.array([shape]))
    assert found[0] == pytest.approx(slope(shape), abs=1e-6)


@pytest.mark.parametrize("gap", [1e-4, -1e-5, 1e-6, -1e-6])
def test_gradients_near_the_singularity(gap, double_precision):
    (found,) = gradients(log_partition, np.array([2 + gap]))
    oracle = slope(mp.mpf(2) + mp.mpf(gap), step=abs(gap) * 1e-5)
    assert found[0] == pytest.approx(oracle, rel=1e-3)


def test_the_slope_is_singular_but_finite_at_two():
    for dtype in ("float32", "float64"):
        (found,) = gradients(log_partition, np.array([2.0], dtype))
        assert np.isfinite(found[0])
        assert found[0] < -4


def test_float32_table_agrees_with_the_float64_one(rng, double_precision):
    shape = np.concatenate(
        [rng.uniform(0, 4, 3000), np.logspace(0, 12, 500), [0, 1, 2, 3]]
    ).astype("float32")
    found, (value, slopes) = (
        [
            ops.convert_to_numpy(v)
            for v in value_and_slope(ops.convert_to_tensor(shape, dtype=dtype))
        ]
        for dtype in ("float32", "float64")
    )
    np.testing.assert_allclose(found[0], value, atol=3e-7)
    away = np.abs(shape - 2) > 1e-3
    np.testing.assert_allclose(found[1][away], slopes[away], atol=5e-6)


def test_it_decreases_everywhere(double_precision):
    shape = np.concatenate([np.linspace(0, 4, 4001), np.logspace(1, 6, 200)])
    value = ops.convert_to_numpy(log_partition(ops.convert_to_tensor(shape)))
    assert np.all(np.diff(value) < 0)
