import keras
import numpy as np
import pytest
from keras import ops

from keras_likelihood import constraints
from tests.autodiff import gradients

ALL = [
    constraints.Exp(),
    constraints.Softplus(floor=1e-8),
    constraints.Softplus(floor=0.5),
    constraints.ShiftedSoftplus(0.01),
    constraints.ShiftedSoftplus(0.2),
    constraints.AffineSigmoid(0.0, 3.0),
    constraints.AffineSigmoid(-2.0, -1.0),
]


@pytest.mark.parametrize("constraint", ALL, ids=repr)
def test_inverse_undoes_the_map(constraint, double_precision):
    x = np.linspace(-12, 12, 49)
    y = ops.convert_to_numpy(constraint(ops.convert_to_tensor(x)))
    np.testing.assert_allclose(constraint.inverse(y), x, atol=1e-6)
    np.testing.assert_allclose(
        ops.convert_to_numpy(constraint.inverse(ops.convert_to_tensor(y))),
        x,
        atol=1e-6,
    )


@pytest.mark.parametrize("constraint", ALL, ids=repr)
def test_small_and_large_values_come_back(constraint, double_precision):
    span = min(constraint.high - constraint.low, 1e6)
    y = constraint.low + span * np.array([1e-9, 1e-3, 0.5, 0.999])
    x = constraint.inverse(y)
    again = ops.convert_to_numpy(constraint(ops.convert_to_tensor(x)))
    np.testing.assert_allclose(
        again - constraint.low, y - constraint.low, rtol=1e-6
    )


@pytest.mark.parametrize("constraint", ALL, ids=repr)
def test_stays_inside_and_keeps_a_gradient(constraint):
    x = np.array([-80.0, -20.0, -1.0, 0.0, 1.0, 15.0], dtype="float32")
    y = ops.convert_to_numpy(constraint(ops.convert_to_tensor(x)))
    rounding = 1e-6 * abs(constraint.low)
    assert np.all(y >= constraint.low - rounding)
    assert np.all(y <= constraint.high)
    assert np.all(np.diff(y) >= 0)
    (slope,) = gradients(constraint, x)
    assert np.all(np.isfinite(slope))
    assert np.all(slope[2:5] > 0)


@pytest.mark.parametrize("offset", [0.0, 0.01, 0.2, 1.0])
def test_shifted_softplus_is_one_at_zero(offset):
    constraint = constraints.ShiftedSoftplus(offset)
    assert float(constraint(ops.zeros(()))) == pytest.approx(1.0, abs=1e-6)
    assert float(constraint.inverse(1.0)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("constraint", ALL, ids=repr)
def test_config_round_trip_keeps_the_map(constraint):
    config = keras.saving.serialize_keras_object(constraint)
    again = constraints.get(config)
    x = np.linspace(-3, 3, 7).astype("float32")
    np.testing.assert_array_equal(
        ops.convert_to_numpy(again(x)), ops.convert_to_numpy(constraint(x))
    )
    assert again == constraint
    assert hash(again) == hash(constraint)


def test_different_arguments_are_not_equal():
    assert constraints.Softplus(0.1) != constraints.Softplus(0.2)
    assert constraints.Softplus(0.0) != constraints.Exp()


@pytest.mark.parametrize(
    "constraint, outside",
    [
        (constraints.Exp(), 0.0),
        (constraints.ShiftedSoftplus(0.2), 0.1),
        (constraints.AffineSigmoid(0.0, 3.0), 3.0),
        (constraints.AffineSigmoid(0.0, 3.0), float("nan")),
    ],
)
def test_inverse_names_the_domain(constraint, outside):
    with pytest.raises(ValueError, match="strictly between.*Received"):
        constraint.inverse(outside)


@pytest.mark.parametrize(
    "make",
    [
        lambda: constraints.Softplus(-1.0),
        lambda: constraints.ShiftedSoftplus(float("nan")),
        lambda: constraints.AffineSigmoid(1.0, 1.0),
        lambda: constraints.get("cosine"),
    ],
)
def test_bad_arguments_are_refused(make):
    with pytest.raises(ValueError, match="Received"):
        make()
