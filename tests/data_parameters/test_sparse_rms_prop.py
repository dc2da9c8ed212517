"""One step of sparse RMSProp against a loop over the rows."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood.backend.operations import sums_of_equal
from keras_likelihood.data_parameters.sparse_rms_prop import SparseRMSProp


def slow_step(state, gradient, index, o):
    """Reference: one row at a time, in float64."""
    state = state.astype("float64").copy()
    total = {}
    for i, g in zip(index, gradient.astype("float64"), strict=True):
        total[i] = total.get(i, 0) + g
    for place, i in enumerate(index):
        row, g = state[place], total[i]
        before = np.where(row[1] > 0, row[1], o.initial_mean_square)
        row[1] = square = o.rho * before + (1 - o.rho) * g**2
        move = o.learning_rate * g / np.sqrt(square + o.epsilon)
        if o.momentum:
            row[2] = o.momentum * row[2] + move
            move = row[2].copy()
        row[0] -= move + o.learning_rate * o.weight_decay * row[0]
    return state


def step(optimizer, state, gradient, index, counts=None):
    counts = np.ones(len(index), bool) if counts is None else counts
    moved = optimizer.step(
        *(ops.convert_to_tensor(x) for x in (state, gradient, index, counts))
    )
    return tuple(ops.convert_to_numpy(x) for x in moved)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rho": 0.5, "epsilon": 1e-3},
        {"momentum": 0.7},
        {"weight_decay": 0.3},
        {"initial_mean_square": 1.0, "epsilon": 1e-10},
        {"momentum": 0.9, "weight_decay": 0.1, "rho": 0.0},
    ],
)
@pytest.mark.parametrize(
    "index", [[3, 0, 9, 4], [3, 0, 3, 3], [7, 7, 7, 7]], ids=str
)
def test_equals_a_loop_over_rows(options, index):
    optimizer = SparseRMSProp(learning_rate=0.1, **options)
    rng = np.random.default_rng(0)
    table = rng.random((10, len(optimizer.columns), 5)).astype("float32")
    table[9] = 0
    gradient = rng.normal(size=(4, 5)).astype("float32")
    index = np.array(index, "int32")
    actual, refused = step(optimizer, table[index], gradient, index)
    expected = slow_step(table[index], gradient, index, optimizer)
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-6)
    assert not refused.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_a_row_that_would_not_be_finite_stays(bad):
    optimizer = SparseRMSProp(learning_rate=0.1)
    rng = np.random.default_rng(0)
    state = rng.random((4, 2, 3)).astype("float32")
    state[3] = state[1]
    gradient = rng.normal(size=(4, 3)).astype("float32")
    gradient[1, 2] = bad
    index = np.array([5, 2, 0, 2], "int32")
    actual, refused = step(optimizer, state, gradient, index)
    np.testing.assert_array_equal(refused, [False, True, False, True])
    np.testing.assert_array_equal(actual[[1, 3]], state[[1, 3]])
    assert np.all(actual[[0, 2]] != state[[0, 2]])


def test_entries_that_do_not_count_move_nothing():
    optimizer = SparseRMSProp(learning_rate=0.1, momentum=0.9, rho=0.5)
    rng = np.random.default_rng(0)
    table = rng.random((10, 3, 2)).astype("float32")
    gradient = rng.normal(size=(4, 2)).astype("float32")
    gradient[0] = np.nan
    index = np.array([9, 9, 4, 0], "int32")
    counts = np.array([False, True, True, False])
    actual, refused = step(optimizer, table[index], gradient, index, counts)
    assert not refused.any()
    expected = slow_step(
        table[index[1:3]], gradient[1:3], index[1:3], optimizer
    )
    np.testing.assert_allclose(actual[[1, 2]], expected, rtol=2e-6, atol=1e-6)
    np.testing.assert_array_equal(actual[0], actual[1])
    np.testing.assert_array_equal(actual[3], table[0])


def test_a_mean_over_many_pixels_still_takes_a_full_step():
    optimizer = SparseRMSProp(learning_rate=0.1, rho=0.9)
    gradient = np.full((1, 1), 1e-7, "float32")
    zeros = np.zeros((1, 2, 1), "float32")
    state, _ = step(optimizer, zeros, gradient, np.zeros(1, "int32"))
    moved = -float(state[0, 0, 0])
    assert moved == pytest.approx(0.1 / np.sqrt(0.1), rel=0.1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.0),
        ("rho", 1.0),
        ("epsilon", 0.0),
        ("momentum", 1.0),
        ("weight_decay", -1.0),
    ],
)
def test_refuses(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be .*Received"):
        SparseRMSProp(**{"learning_rate": 0.1, name: value})


@pytest.mark.parametrize("count", [1, 7, 300])
def test_sums_of_equal_entries(rng, count):
    """Few and many entries, which JAX sums in two ways."""
    index = rng.integers(0, 5, count).astype("int32")
    one = rng.normal(size=count).astype("float32")
    two = rng.normal(size=(count, 3)).astype("float32")
    made = sums_of_equal(
        [ops.convert_to_tensor(x) for x in (one, two)],
        ops.convert_to_tensor(index),
    )
    equal = (index[:, None] == index).astype("float64")
    for x, found in zip((one, two), made, strict=True):
        np.testing.assert_allclose(
            ops.convert_to_numpy(found), equal @ x, rtol=1e-5, atol=1e-5
        )


def test_a_mean_square_that_starts_at_one_forgets_its_start():
    rule = SparseRMSProp(learning_rate=0.1, initial_mean_square=1.0)
    state, index = np.zeros((1, 2, 1), "float32"), np.zeros(1, "int32")
    for _ in range(300):
        state, _ = step(rule, state, np.full((1, 1), 1e-5, "float32"), index)
    np.testing.assert_allclose(state[0, 1], 1e-10, rtol=1e-3)


def test_a_mean_square_that_starts_at_one_can_be_read():
    rule = SparseRMSProp(initial_mean_square=1.0)
    scale = kl.DataParameter(8, optimizer=rule)
    inputs = keras.Input((1,))
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=scale))
    x = np.ones((8, 1), "float32")
    model.fit(x, kl.indexed(3 * x), verbose=0)
    assert (scale.values() != 1.0).all()
