"""Scales that follow held-out rows, and what they work with."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import regularizers
from keras_likelihood.backend.training_rows import Rows, split_rows
from keras_likelihood.regularizers.measurements import Measurements
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
    measured = Measurements(model, [weight], None, examples=64, seed=0)
    weights = np.linspace(0, 2, 64).astype("float32")
    measured.use_rows(None, Rows(x, y, weights + 1e-3))
    assert measured.held_out_slopes(weight, step=0) == (None, None)
    before = ops.convert_to_numpy(weight)
    kernel = np.float32([[0.5], [-2], [1], [-1], [3]])
    weight.assign(kernel)
    measured.held_out_slopes(weight, step=1)
    found, _ = measured.held_out_slopes(weight, step=2)
    residual = 0.16 * (x @ before - y) + 0.2 * (x @ kernel - y)
    residual *= weights[:, None]
    is_ridge = issubclass(cls, regularizers.DRidge)
    expected = x.T @ residual / 64 * (kernel if is_ridge else np.sign(kernel))
    if cls in (regularizers.DRidge, regularizers.DLasso):
        expected = expected.sum(keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-3)


def test_the_size_of_a_weight_before_a_normalisation_has_no_slope(data):
    x, y = data
    inputs = keras.Input((5,))
    prior = regularizers.DRidge(num_examples=64)
    features = keras.layers.Dense(4, kernel_regularizer=prior)(inputs)
    features = keras.layers.BatchNormalization(epsilon=1e-9)(features)
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(features))
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=1.0))
    (weight,) = regularizers.adaptive_weights(model)
    mean = ops.convert_to_numpy(model.layers[2].moving_mean)
    measured = Measurements(model, [weight], None, examples=64, seed=0)
    measured.use_rows(None, Rows(x, y))
    measured.held_out_slopes(weight, step=0)
    found, _ = measured.held_out_slopes(weight, step=1)
    np.testing.assert_allclose(found, 0.0, atol=1e-5)
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
    history = model.fit(
        x, y, batch_size=4, epochs=4, verbose=0, **arguments
    ).history
    assert "effective_weights" not in history
    scale = prior.scale()
    assert np.all(np.isfinite(scale)) and not np.allclose(scale, 1.0)
    steps = {"split": 48, "data": 64, "share": 48}[how]
    assert int(model.optimizer.iterations.numpy()) == steps


def test_a_share_needs_arrays(data):
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return data

    model = model_with(regularizers.DRidge(num_examples=64))
    learn = regularizers.LearnScales(held_out=0.5)
    with pytest.raises(ValueError, match=r"Received: held_out=0.5 and Batches"):
        model.fit(Batches(), callbacks=[learn], verbose=0)
    with pytest.raises(ValueError, match=r"share in \(0, 1\). Received: 2"):
        regularizers.LearnScales(held_out=2)


@pytest.mark.few(0)
def test_a_data_parameter_may_be_beside_it(data):
    x, y = data
    prior = regularizers.DRidge(num_examples=48)
    scale = kl.DataParameter(num_examples=48)
    model = model_with(prior, kl.losses.NormalLoss(scale=scale))
    model.fit(
        x[:48],
        kl.indexed(y[:48]),
        batch_size=4,
        epochs=4,
        validation_data=(x[48:], y[48:]),
        verbose=0,
    )
    assert prior.scale() != 1.0


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


@pytest.mark.few(0)
@pytest.mark.parametrize("held_out", [False, True])
def test_rows_of_weight_zero_are_as_if_absent(held_out, data):
    """They change neither the measured curvature nor the held-out slope."""
    x, y = data
    far = np.concatenate([x, 100 * x]), np.concatenate([y, -100 * y])
    # Keras divides by the number of rows, with those of weight 0.
    weight = np.repeat([2.0, 0.0], 64).astype("float32")
    found = []
    for rows in (x, y, np.ones(64, "float32")), (*far, weight):
        keras.utils.set_random_seed(0)
        prior = regularizers.DRidge(num_examples=64)
        model = model_with(prior)
        extra = {"validation_data": rows} if held_out else {}
        if held_out:
            rows = x, y, np.ones(64, "float32")
        inputs, targets, weights = rows
        model.fit(
            inputs,
            targets,
            sample_weight=weights,
            batch_size=len(inputs),
            epochs=40,
            verbose=0,
            **extra,
        )
        found.append((prior.scale().item(), model.get_weights()[0]))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-2)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-2)


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
    measured = Measurements(model, [weight], None, examples=64, seed=0)
    measured.use_rows(None, Rows(x, y))
    kernel = ops.convert_to_numpy(weight)
    measured.held_out_slopes(weight, step=0)
    weight.assign(np.inf * kernel)
    before, _ = measured.held_out_slopes(weight, step=1)
    weight.assign(kernel)
    measured.held_out_slopes(weight, step=2)
    after, _ = measured.held_out_slopes(weight, step=3)
    # The second of the three gradients of equal size does not count.
    np.testing.assert_allclose(after, 1.8 * before, rtol=1e-5)


def test_rules_are_checked():
    with pytest.raises(ValueError, match=r"`ScaleRule`s. Received: \['Held"):
        regularizers.LearnScales(["HeldOut"])


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


def test_class_weights_of_rows_with_an_index(data):
    x, _ = data
    y = (x[:, 0] > 0.5).astype("int32")
    temperature = kl.DataParameter(num_examples=64)
    loss = kl.losses.SoftmaxLoss(temperature=temperature)
    model = model_with(regularizers.DRidge(num_examples=64), loss, units=2)
    model.fit(
        x,
        kl.indexed(y),
        class_weight={0: 1.0, 1: 2.0},
        validation_data=(x, y),
        verbose=0,
    )
    assert model.optimizer.iterations == 2


@pytest.mark.few(0)
def test_class_weights_are_row_weights_in_the_curvature(data):
    x, _ = data
    y = (x[:, 0] > 0.5).astype("int32")
    found = []
    for weights in (
        {"class_weight": {0: 0.02, 1: 0.04}},
        {"sample_weight": np.where(y, 0.04, 0.02).astype("float32")},
        {},
    ):
        keras.utils.set_random_seed(0)
        prior = regularizers.DRidge(num_examples=64)
        loss = kl.losses.SoftmaxLoss(temperature=1.0)
        model = model_with(prior, loss, units=2, optimizer="adam")
        model.fit(x, y, batch_size=16, epochs=20, verbose=0, **weights)
        found.append(prior.effective_weights())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert not np.isclose(found[0], found[2], rtol=0.05)


def test_the_last_rows_are_held_out():
    kept, last = split_rows((np.arange(10), None), 0.3)
    assert list(kept[0]) == list(range(7)) and list(last[0]) == [7, 8, 9]
    assert kept[1] is None and last[1] is None
