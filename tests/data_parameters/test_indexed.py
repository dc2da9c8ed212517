"""Indices stay with the targets exactly."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters.indexed import (
    INDEX,
    TARGET,
    indices,
    split_index,
)
from tests.data_parameters.test_training import frozen_model


def test_numbers_examples_from_zero():
    y = np.ones((5, 2), "float32")
    target, weight, index = split_index(kl.indexed(y))
    assert target is y
    assert weight is None
    np.testing.assert_array_equal(index, np.arange(5))


def test_keeps_given_numbers():
    _, _, index = split_index(
        kl.indexed(np.zeros((3, 1)), index=np.array([[7], [7], [1]]))
    )
    np.testing.assert_array_equal(index, [7, 7, 1])


def test_structured_targets_count_examples():
    y = {"a": np.zeros((4, 1)), "b": np.zeros((4, 3))}
    assert len(split_index(kl.indexed(y))[2]) == 4


def test_plain_targets_have_no_index():
    y = {"a": np.zeros(3), "index": np.arange(3)}
    target, weight, index = split_index(y, {"a": np.ones(3)})
    assert target is y
    assert set(weight) == {"a"}
    assert index is None


def test_outputs_may_have_an_index_each():
    rows = np.array([2, 0, 1])
    y = {"a": kl.indexed(np.zeros(3), index=rows), "b": np.zeros(3)}
    for targets in (y, list(y.values())):
        (index,) = indices(None, targets)
        np.testing.assert_array_equal(index, rows)
    assert indices(None, y["b"]) == [] and indices(iter([y])) is None
    tf = pytest.importorskip("tensorflow")
    data = tf.data.Dataset.from_tensor_slices((np.zeros((3, 1)), y))
    assert len(indices(data.batch(2))) == 1


def test_weights_repeated_over_the_structure_are_one_again():
    y = kl.indexed(np.zeros((3, 1)))
    weight = np.array([1.0, 2.0, 3.0])
    assert split_index(y, {INDEX: weight, TARGET: weight})[1] is weight


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (np.array([0.0, 1.0]), "must be integers"),
        (np.zeros((2, 2), "int32"), "must be integers of shape"),
        (np.array([0, 1, 2]), "for 2 targets"),
    ],
)
def test_refuses_bad_numbers(index, message):
    with pytest.raises(ValueError, match=message):
        kl.indexed(np.zeros((2, 1)), index=index)


def test_index_beyond_float32_precision_reaches_the_loss():
    base = 2**24
    size = base + 64
    x = np.zeros((32, 1), "float32")
    y = np.full((32, 1), 2.0, "float32")
    index = base + 1 + 2 * np.arange(32)[::-1]
    scale = kl.DataParameter(size)
    model = frozen_model(kl.losses.NormalLoss(scale=scale))
    model.fit(x, kl.indexed(y, index=index), batch_size=8, verbose=0)
    moved = np.flatnonzero(scale.state()[:, 1, 0])
    np.testing.assert_array_equal(moved, np.sort(index))


@pytest.mark.parametrize("index", [2**31 - 1, 2**32, 2**32 + 3, 2**63 + 1])
def test_wide_indices_never_reach_another_row(index):
    scale = kl.DataParameter(8)
    model = frozen_model(kl.losses.NormalLoss(scale=scale))
    y = kl.indexed(np.ones((2, 1)), index=np.array([index, index], "uint64"))
    with pytest.raises(ValueError, match=r"2 index\(es\) outside"):
        model.fit(np.ones((2, 1)), y, verbose=0)
    np.testing.assert_array_equal(scale.state(), np.zeros((8, 2, 1)))


class TestDataset:
    def dataset(self, *elements):
        tf = pytest.importorskip("tensorflow")
        return tf.data.Dataset.from_tensor_slices(elements)

    def test_numbers_survive_shuffling(self):
        x = np.arange(10, dtype="float32")
        dataset = kl.indexed(self.dataset(x, 2 * x)).shuffle(10).batch(4)
        for _ in range(2):
            for inputs, y in dataset:
                np.testing.assert_array_equal(y[INDEX], inputs)
                np.testing.assert_array_equal(y[TARGET], 2 * inputs)

    def test_trains(self):
        x = np.zeros((12, 1), "float32")
        y = np.linspace(-3, 3, 12, dtype="float32")[:, None]
        scale = kl.DataParameter(12)
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        dataset = kl.indexed(self.dataset(x, y)).shuffle(12).batch(4)
        model.fit(dataset, epochs=3, shuffle=False, verbose=0)
        grown = scale.values() > 1
        np.testing.assert_array_equal(grown, np.abs(y[:, 0]) > 1)

    @pytest.mark.parametrize(
        ("steps", "named"),
        [
            (lambda d: d.shuffle(4).map(_same), "Shuffle"),
            (lambda d: d.batch(4).map(_same).prefetch(1), "Batch"),
            (lambda d: d.concatenate(d.shuffle(4)), "Shuffle"),
            (lambda d: d.shuffle(4, seed=1), "Shuffle"),
            (lambda d: d.flat_map(_shuffled), "FlatMap.* over shuffled"),
            (
                lambda d: d.interleave(
                    _alone, 2, num_parallel_calls=2, deterministic=False
                ),
                "not deterministic",
            ),
        ],
    )
    def test_refuses_what_has_no_fixed_order(self, steps, named):
        x = np.zeros((4, 1), "float32")
        with pytest.raises(ValueError, match=f"before `shuffle`.*{named}"):
            kl.indexed(steps(self.dataset(x, x)))

    @pytest.mark.few(2)
    @pytest.mark.parametrize(
        "steps",
        [
            lambda d: d.map(_same, num_parallel_calls=2).take(9),
            lambda d: d.batch(2).unbatch().map(_same),
            lambda d: d.interleave(_alone, 2, num_parallel_calls=2),
            lambda d: d.shuffle(9, seed=3, reshuffle_each_iteration=False),
        ],
    )
    def test_numbers_what_has_one(self, steps):
        x = np.arange(9, dtype="float32")
        dataset = kl.indexed(steps(self.dataset(x, x)))
        first, second = (
            [(int(y[INDEX]), float(y[TARGET])) for _, y in dataset]
            for _ in range(2)
        )
        assert first == second
        assert [number for number, _ in first] == list(range(9))

    def test_refuses_an_index_of_its_own(self):
        x = np.zeros((4, 1), "float32")
        with pytest.raises(ValueError, match="numbered in its own order"):
            kl.indexed(self.dataset(x, x), index=np.arange(4))


def _same(*element):
    return element


def _alone(*element):
    import tensorflow as tf

    return tf.data.Dataset.from_tensors(element)


def _shuffled(*element):
    return _alone(*element).shuffle(2)


class Batches(keras.utils.PyDataset):
    """Batches of four in another order each epoch; the last is shorter."""

    y = np.linspace(-3, 3.3, 10, dtype="float32")[:, None]
    order = np.arange(10)

    def __len__(self):
        return 3

    def __getitem__(self, number):
        rows = self.order[4 * number : 4 * number + 4]
        y = self.y[rows]
        return np.zeros_like(y), kl.indexed(y, index=rows)

    def on_epoch_end(self):
        self.order = self.order[::-1]


@pytest.mark.usefixtures("step_by_step")
def test_a_py_dataset_numbers_its_rows():
    scale = kl.DataParameter(10)
    model = frozen_model(kl.losses.NormalLoss(scale=scale))
    model.fit(Batches(), epochs=3, verbose=0)
    grown = scale.values() > 1
    np.testing.assert_array_equal(grown, np.abs(Batches.y[:, 0]) > 1)
    with pytest.raises(ValueError, match="from its `__getitem__`.*Batches"):
        kl.indexed(Batches())


class TestTorch:
    @pytest.mark.usefixtures("step_by_step")
    def test_numbers_a_dataset_before_its_loader(self):
        data = pytest.importorskip("torch.utils.data")
        torch = pytest.importorskip("torch")
        y = torch.linspace(-3, 3, 12)[:, None]
        dataset = data.TensorDataset(torch.zeros(12, 1), y)
        loader = data.DataLoader(kl.indexed(dataset), 4, shuffle=True)
        for _, target in loader:
            np.testing.assert_array_equal(
                target[TARGET], y.numpy()[target[INDEX].numpy()]
            )
        with pytest.raises(ValueError, match="before the `DataLoader`"):
            kl.indexed(loader)
        scale = kl.DataParameter(12)
        model = frozen_model(kl.losses.NormalLoss(scale=scale))
        model.fit(loader, shuffle=False, verbose=0)
        grown = scale.values() > 1
        np.testing.assert_array_equal(grown, np.abs(y.numpy()[:, 0]) > 1)
