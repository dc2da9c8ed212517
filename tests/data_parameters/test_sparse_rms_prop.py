"""One step of sparse RMSProp against a loop over the rows."""

import numpy as np
import pytest
from keras import ops

from keras_likelihood.data_parameters.sparse_rms_prop import SparseRMSProp


def slow_step(state, gradient, index, o):
    """Rows one by one, in float64."""
    state = state.astype("float64").copy()
    total = {}
    for i, g in zip(index, gradient.astype("float64"), strict=True):
        total[i] = total.get(i, 0) + g
    if o.clipnorm is not None:
        norm = np.sqrt(sum(np.sum(g**2) for g in total.values()))
        if norm > o.clipnorm:
            total = {i: g * o.clipnorm / norm for i, g in total.items()}
    for place, i in enumerate(index):
        row, g = state[place], total[i]
        row[1] = o.rho * row[1] + (1 - o.rho) * g**2
        move = o.learning_rate * g / np.sqrt(row[1] + o.epsilon)
        if o.momentum:
            row[2] = o.momentum * row[2] + move
            move = row[2].copy()
        row[0] -= move + o.learning_rate * o.weight_decay * row[0]
    return state


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rho": 0.5, "epsilon": 1e-3},
        {"momentum": 0.7},
        {"weight_decay": 0.3},
        {"clipnorm": 0.5},
        {"clipnorm": 1e6},
        {"momentum": 0.9, "weight_decay": 0.1, "clipnorm": 1.0, "rho": 0.0},
    ],
)
@pytest.mark.parametrize(
    "index", [[3, 0, 9, 4], [3, 0, 3, 3], [7, 7, 7, 7]], ids=str
)
def test_equals_a_loop_over_rows(options, index):
    optimizer = SparseRMSProp(learning_rate=0.1, **options)
    rng = np.random.default_rng(0)
    table = rng.random((10, optimizer.slots, 5)).astype("float32")
    gradient = rng.normal(size=(4, 5)).astype("float32")
    index = np.array(index, "int32")
    actual = optimizer.step(
        ops.convert_to_tensor(table[index]),
        ops.convert_to_tensor(gradient),
        ops.convert_to_tensor(index),
    )
    expected = slow_step(table[index], gradient, index, optimizer)
    np.testing.assert_allclose(
        ops.convert_to_numpy(actual), expected, rtol=2e-6, atol=1e-6
    )


def test_a_mean_over_many_pixels_still_takes_a_full_step():
    optimizer = SparseRMSProp(learning_rate=0.1, rho=0.9)
    gradient = np.full((1, 1), 1e-7, "float32")
    state = optimizer.step(
        ops.zeros((1, 2, 1)),
        ops.convert_to_tensor(gradient),
        ops.zeros((1,), "int32"),
    )
    step = -float(ops.convert_to_numpy(state)[0, 0, 0])
    assert step == pytest.approx(0.1 / np.sqrt(0.1), rel=0.1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.0),
        ("rho", 1.0),
        ("epsilon", 0.0),
        ("momentum", 1.0),
        ("weight_decay", -1.0),
        ("clipnorm", 0.0),
    ],
)
def test_refuses(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be .*Received"):
        SparseRMSProp(**{"learning_rate": 0.1, name: value})
