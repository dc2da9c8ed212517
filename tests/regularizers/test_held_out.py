"""Scales that follow held-out rows, and what they work with."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import regularizers
from keras_likelihood.backend.training_rows import (
    Rows,
    numpy_batches,
    split_batches,
    split_rows,
    split_stratified,
)
from keras_likelihood.regularizers.held_out_slopes import (
    HeldOutSlopes,
    ScaleGroup,
)
from tests.contracts import EAGERLY

PRIORS = [
    regularizers.DRidge,
    regularizers.DLasso,
    regularizers.MultiRidge,
    regularizers.MultiLasso,
]


@pytest.fixture
def data(rng):
    x = rng.standard_normal((64, 5)).astype("float32")
    y = x[:, :1] + rng.standard_normal((64, 1))
    return x, y.astype("float32")


def model_with(prior, loss=None, units=1, hidden=False, **options):
    inputs = features = keras.Input((5,))
    if hidden:
        features = keras.layers.Dense(3, "tanh")(inputs)
    outputs = keras.layers.Dense(
        units, kernel_regularizer=prior, kernel_initializer="ones"
    )(features)
    model = kl.LikelihoodModel(inputs, outputs)
    options.setdefault("optimizer", "sgd")
    model.compile(
        loss=loss or kl.losses.NormalLoss(scale=1.0),
        run_eagerly=EAGERLY,
        **options,
    )
    return model


@pytest.mark.parametrize("cls", PRIORS, ids=lambda c: c.__name__)
def test_slopes_are_the_running_mean_of_gradients_along_the_pull(cls, data):
    x, y = data
    model = model_with(cls(num_examples=64))
    _ = model.losses
    (weight,) = regularizers.adaptive_weights(model)
    measured = HeldOutSlopes(model, [weight], 1.0, seed=0)
    weights = np.linspace(0, 2, 64).astype("float32")
    measured.use_rows(Rows(x, y, weights + 1e-3))
    assert measured.measure() is None
    before = ops.convert_to_numpy(weight)
    kernel = np.float32([[0.5], [-2], [1], [-1], [3]])
    weight.assign(kernel)
    measured.measure()
    (found,) = measured.measure()[0]
    residual = 0.16 * (x @ before - y) + 0.2 * (x @ kernel - y)
    residual *= weights[:, None]
    is_ridge = issubclass(cls, regularizers.DRidge)
    expected = x.T @ residual / 64 * (kernel if is_ridge else np.sign(kernel))
    if cls in (regularizers.DRidge, regularizers.DLasso):
        expected = expected.sum(keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-3)


def test_the_size_of_a_weight_before_a_normalisation_has_no_slope(rng):
    x = rng.standard_normal((64, 8)).astype("float32")
    y = x[:, :1] + rng.standard_normal((64, 1)).astype("float32")
    inputs = keras.Input((8,))
    prior = regularizers.DRidge(num_examples=64)
    features = keras.layers.Dense(8, kernel_regularizer=prior)(inputs)
    features = keras.layers.BatchNormalization(epsilon=1e-9)(features)
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(features))
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=1.0))
    (weight,) = regularizers.adaptive_weights(model)
    mean = ops.convert_to_numpy(model.layers[2].moving_mean)
    measured = HeldOutSlopes(model, [weight], 1.0, seed=0)
    measured.use_rows(Rows(x, y))
    measured.measure()
    weight.assign(0.5 * ops.convert_to_numpy(weight) + 0.1)
    measured.measure()
    # Not even the running mean, which contains what training has changed.
    assert measured.measure()[0][0] == 0
    after = ops.convert_to_numpy(model.layers[2].moving_mean)
    np.testing.assert_array_equal(after, mean)


@pytest.mark.few(1)
@pytest.mark.parametrize("sign", [1, -1])
def test_strength_grows_where_held_out_rows_want_smaller_weights(sign, data):
    x, y = data
    prior = regularizers.DRidge(num_examples=64, initial_scale=1.0)
    model = model_with(prior)
    # The weights are 1. Held-out rows without any signal want them at 0, and
    # rows with twice the signal want them larger.
    held_out = x, (1 - sign) * x.sum(1, keepdims=True)
    learn = regularizers.LearnScales(held_out=held_out)
    target = x.sum(1, keepdims=True)
    model.fit(x, target, batch_size=8, epochs=6, callbacks=[learn], verbose=0)
    assert sign * np.log(prior.scale().item()) < 0


@pytest.mark.few(1)
@pytest.mark.parametrize("cls", PRIORS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("how", ["split", "data", "share"])
def test_fit_gives_its_held_out_rows(cls, how, data):
    x, y = data
    prior = cls(num_examples=64)
    model = model_with(prior)
    arguments = {
        "split": {"validation_split": 0.25},
        "data": {"validation_data": (x, y, np.ones(64, "float32"))},
        "share": {"callbacks": [regularizers.LearnScales(held_out=0.25)]},
    }[how]
    model.fit(x, y, batch_size=4, epochs=4, verbose=0, **arguments)
    assert 0 < prior.effective_weights() <= 5
    scale = prior.scale()
    assert np.all(np.isfinite(scale)) and not np.allclose(scale, 1.0)
    steps = {"split": 48, "data": 64, "share": 48}[how]
    assert int(model.optimizer.iterations.numpy()) == steps


def test_a_share_needs_arrays(data):
    model = model_with(regularizers.DRidge(num_examples=64))
    learn = regularizers.LearnScales(held_out=0.5)
    with pytest.raises(ValueError, match=r"Received: held_out=0.5 and Batches"):
        model.fit(Batches(*data), callbacks=[learn], verbose=0)
    for name, value in (("held_out", 2), ("rate", 0.0)):
        with pytest.raises(ValueError, match=rf"`{name}` .* Received: {value}"):
            regularizers.LearnScales(**{name: value})


def test_metrics_do_not_count_held_out_rows(data):
    x, y = data
    found = []
    for held_out in (x, y), (x, 100 * y):
        keras.utils.set_random_seed(0)
        prior = regularizers.DRidge(num_examples=64)
        model = model_with(
            prior,
            metrics=["mae", kl.metrics.NegativeLogLikelihood()],
            optimizer=keras.optimizers.SGD(1e-6),
        )
        learn = regularizers.LearnScales(held_out=held_out)
        history = model.fit(x, y, batch_size=4, callbacks=[learn], verbose=0)
        found.append(history.history)
    for name in set(found[0]) - {"loss"}:
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-3)


def test_rows_of_weight_zero_are_not_drawn():
    x = np.arange(20.0)[:, None]
    weight = (np.arange(20) % 4 == 0).astype("float32")
    rows = Rows(x, x, weight)
    for most in (3, 100):
        drawn = rows.draw(most)
        assert set(drawn["x"].ravel()) <= set(range(0, 20, 4))
        assert len(drawn["x"]) == min(most, 5)
        # The mean weight of all rows.
        assert np.all(drawn["weight"] == 0.25)
    sequences = Rows(x, sample_weight=weight[:, None] * np.ones((20, 3)))
    assert len(sequences.draw(100)["x"]) == 5


@pytest.mark.parametrize("wrong", ["targets", "count", "empty", "array"])
def test_held_out_rows_are_checked(wrong, data):
    x, y = data
    rows = {"targets": (x,), "count": (x, y[:9]), "empty": (x[:0], y[:0])}
    with pytest.raises(ValueError, match=r"equally many rows.* Received: \d p"):
        regularizers.LearnScales(held_out=rows.get(wrong, x))


@pytest.mark.parametrize("how", ["held_out", "validation_data"])
def test_impossible_held_out_targets_are_refused_before_training(how, data):
    x, y = data
    bad = np.where(np.arange(64)[:, None] == 7, np.nan, y)
    model = model_with(regularizers.DRidge(num_examples=64))
    rows = {"validation_data": [x, bad]}
    if how == "held_out":
        rows = {"callbacks": [regularizers.LearnScales(held_out=[x, bad])]}
    with pytest.raises(ValueError, match="Received: nan in row 7"):
        model.fit(x, y, verbose=0, **rows)
    assert model.optimizer.iterations == 0


def test_a_gradient_that_overflows_is_left_out(data):
    x, y = data
    prior = regularizers.DRidge(num_examples=64)
    model = model_with(prior)
    _ = model.losses
    (weight,) = regularizers.adaptive_weights(model)
    measured = HeldOutSlopes(model, [weight], 1.0, seed=0)
    measured.use_rows(Rows(x, y))
    kernel = ops.convert_to_numpy(weight)
    measured.measure()
    weight.assign(np.inf * kernel)
    (before,) = measured.measure()[0]
    weight.assign(kernel)
    measured.measure()
    (after,) = measured.measure()[0]
    # The second of the three gradients of equal size does not count.
    np.testing.assert_allclose(after, 1.8 * before, rtol=1e-5)


def test_a_stock_model_cannot_hold_out_a_share(data):
    x, y = data
    prior = regularizers.DRidge(num_examples=64)
    model = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(1, kernel_regularizer=prior)]
    )
    model.compile("sgd", loss="mse", run_eagerly=EAGERLY)
    learn = regularizers.LearnScales(held_out=0.5)
    with pytest.raises(ValueError, match=r"must be rows.* Received: 0.5"):
        model.fit(x, y, callbacks=[learn], verbose=0)
    assert model.optimizer.iterations == 0


def test_the_last_rows_are_held_out():
    kept, last = split_rows((np.arange(10), None), 0.3)
    assert list(kept[0]) == list(range(7)) and list(last[0]) == [7, 8, 9]
    assert kept[1] is None and last[1] is None


@pytest.mark.parametrize("kind", ["classes", "one-hot", "numbers"])
def test_held_out_rows_have_all_targets(kind, rng):
    labels = np.repeat([0, 1, 2], [100, 40, 20])[rng.permutation(160)]
    y = {
        "classes": labels,
        "one-hot": np.eye(3)[labels],
        "numbers": labels[:, None] + 0.01 * rng.random((160, 1)),
    }[kind]
    (x_kept, y_kept), (x, taken) = split_stratified(
        (np.arange(160), y), y, 0.1, seed=0
    )
    assert sorted([*x_kept, *x]) == list(range(160))
    np.testing.assert_array_equal(taken, y[x])
    np.testing.assert_array_equal(y_kept, y[x_kept])
    assert np.bincount(labels[x]).tolist() == [10, 4, 2]
    again = split_stratified((np.arange(160), y), y, 0.1, seed=0)[1][0]
    other = split_stratified((np.arange(160), y), y, 0.1, seed=1)[1][0]
    assert np.array_equal(x, again) and not np.array_equal(x, other)


@pytest.mark.few(1)
@pytest.mark.parametrize("cls", PRIORS, ids=lambda c: c.__name__)
def test_a_network_holds_out_a_tenth_by_itself(cls, data, capsys):
    x, y = np.repeat(data[0], 2, axis=0), np.repeat(data[1], 2, axis=0)
    prior = cls()
    model = model_with(prior, hidden=True)
    for _ in range(2):
        model.fit(x, y, batch_size=4, epochs=2, verbose=2)
    said = capsys.readouterr().out
    assert said.count("Held out to choose the strength of the ") == 1
    assert "regularizers: 13 training rows" in said
    # 115 rows in batches of 4.
    assert int(model.optimizer.iterations.numpy()) == 2 * 2 * 29
    assert prior.source == "13 training rows"
    assert float(prior.terms) == 115 and len(prior.history) == 4
    assert np.all(prior.scale() != 1.0)


def test_weights_of_the_model_share_a_strength_and_tensors_do_not(data):
    scales = {}
    for group in "model", "tensor":
        hidden = regularizers.DRidge(group=group)
        inputs = keras.Input((5,))
        features = keras.layers.Dense(6, "tanh", kernel_regularizer=hidden)
        last = regularizers.DRidge(group=group)
        dense = keras.layers.Dense(1, kernel_regularizer=last)
        model = kl.LikelihoodModel(inputs, dense(features(inputs)))
        model.compile("adam", loss=kl.losses.NormalLoss(scale=1.0))
        model.fit(*data, batch_size=4, epochs=4, verbose=0)
        scales[group] = hidden.scale().item(), last.scale().item()
    assert scales["model"][0] == scales["model"][1]
    assert scales["tensor"][0] != scales["tensor"][1]


def test_the_start_is_a_common_weight_decay():
    """L2 starts from Keras' factor .005, and L1 pulls equally strongly."""
    kernel = keras.Variable([[2.0], [-1.0]])
    for cls, strength in (
        (regularizers.DRidge, lambda scale: 1 / (2 * 400 * scale**2 * 0.005)),
        (regularizers.DLasso, lambda scale: 1 / (400 * scale * 0.01 * 1.5)),
    ):
        prior = kernel.regularizer = cls(num_examples=400)
        prior.build((2, 1))
        group = ScaleGroup([kernel], [0])
        group.start()
        np.testing.assert_allclose(strength(prior.scale()), 1, rtol=1e-6)
        # A scale that was set before stays.
        prior.set_scale(0.3)
        group.start()
        np.testing.assert_allclose(prior.scale(), 0.3, rtol=1e-6)
    # The first move of RMSProp is one step: towards a smaller scale for L1.
    group.move([np.full((1, 1), 2.0)], 0.05)
    np.testing.assert_allclose(prior.scale(), 0.3 * np.exp(-0.05), rtol=1e-6)
    group.move([np.full((1, 1), np.nan)], 1.0)
    np.testing.assert_allclose(prior.scale(), 0.3 * np.exp(-0.05), rtol=1e-6)


def test_a_custom_loop_needs_the_number_of_terms(data):
    model = model_with(regularizers.DRidge(), hidden=True)
    with pytest.raises(ValueError, match="`num_examples` is needed unless"):
        model.train_on_batch(*data)
    model = model_with(regularizers.DRidge(num_examples=64), hidden=True)
    model.train_on_batch(*data)


class Batches(keras.utils.PyDataset):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x.reshape(16, 4, 5), y.reshape(16, 4, 1)

    def __len__(self):
        return 16

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def tensorflow_batches(x, y):
    data = pytest.importorskip("tensorflow").data
    return data.Dataset.from_tensor_slices((x, y)).batch(4)


def torch_batches(x, y):
    data = pytest.importorskip("torch").utils.data
    rows = [*zip(x, y, strict=True)]
    return data.DataLoader(rows, batch_size=4, shuffle=True)


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")
@pytest.mark.parametrize(
    "made",
    [Batches, tensorflow_batches, torch_batches],
    ids=["keras", "tensorflow", "torch"],
)
def test_a_network_holds_out_every_tenth_batch(made, data):
    prior = regularizers.DRidge()
    model = model_with(prior, hidden=True)
    model.fit(made(*data), epochs=4, verbose=0)
    assert prior.source == "every tenth batch"
    # Of a loader a tenth of the rows: 58 rows in batches of 4.
    kept = 15
    assert int(model.optimizer.iterations.numpy()) == 4 * kept
    assert 58 <= float(prior.terms) <= 60
    assert prior.scale() != 1.0


def test_held_out_batches_are_not_trained_on(data):
    x = np.arange(64.0)[:, None].astype("float32")
    for made in Batches(data[0], x), tensorflow_batches(data[0], x):
        kept, taken = split_batches(made)
        kept, taken = (
            np.concatenate([np.ravel(y) for _, y in numpy_batches(part)])
            for part in (kept, taken)
        )
        assert sorted([*kept, *taken]) == list(range(64))
        assert list(taken) == list(range(36, 40))


@pytest.mark.filterwarnings("ignore:__array__ implementation")
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_a_data_set_in_another_order_each_time_is_not_split(data):
    shuffled = tensorflow_batches(*data).unbatch().shuffle(64).batch(4)
    assert split_batches(shuffled) is None
    model = model_with(regularizers.DRidge(), hidden=True)
    with pytest.warns(UserWarning, match="no rows to choose them"):
        model.fit(shuffled, shuffle=False, verbose=0)
