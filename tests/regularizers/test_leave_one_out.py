"""Strengths of linear models, by approximate leave-one-out."""

import warnings

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import regularizers
from keras_likelihood.backend.training_rows import Rows
from keras_likelihood.models.fit_arguments import FiniteLoss
from keras_likelihood.regularizers.leave_one_out import LinearModel
from tests.batches import Repeated


def linear(prior, columns, loss, outputs=1, **options):
    inputs = keras.Input((columns,))
    dense = keras.layers.Dense(outputs, kernel_regularizer=prior, **options)
    model = kl.LikelihoodModel(inputs, dense(inputs))
    model.compile("adam", loss=loss)
    _ = model.losses
    return model


def problem(prior, x, y, loss, outputs=1, **options):
    """A `LinearModel` with its rows."""
    model = linear(prior, x.shape[1], loss, outputs, **options)
    found = LinearModel.of(model, regularizers.adaptive_weights(model))
    found._use(Rows(x.astype("float32"), y).draw(1000), 1.0)
    return found


def normal_data(rng, rows=40, columns=12):
    x = rng.standard_normal((rows, columns))
    x += rng.standard_normal((rows, 1))
    y = x @ rng.standard_normal((columns, 1)) + rng.standard_normal((rows, 1))
    return x, (y / y.std()).astype("float32")


def test_the_score_of_a_normal_target_is_press(rng):
    x, y = normal_data(rng)
    loss = kl.losses.NormalLoss(scale=0.5)
    found = problem(regularizers.DRidge(), x, y, loss)
    fit = found._fit(found._null(), 8.0)
    # A prior precision of 8 is a ridge penalty of 8 noise^2.
    wide, penalty = np.hstack([x, np.ones((40, 1))]), np.diag(12 * [2.0] + [0])
    inverse = np.linalg.inv(wide.T @ wide + penalty)
    np.testing.assert_allclose(
        fit.weights, inverse @ wide.T @ y, rtol=2e-3, atol=2e-3
    )
    hat = np.diagonal(wide @ inverse @ wide.T)
    press = np.sum(((y - wide @ fit.weights)[:, 0] / (1 - hat)) ** 2)
    expected = press / (2 * 0.5**2) + 40 * np.log(0.5 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(fit.score, expected, rtol=2e-3)
    np.testing.assert_allclose(fit.freedom, hat.sum() - 1, rtol=2e-3)


@pytest.mark.few(0)
@pytest.mark.parametrize("kind", ["softmax", "bernoulli", "poisson"])
def test_the_score_is_that_of_leaving_each_row_out(kind, rng):
    x = rng.standard_normal((30, 3))
    outputs, loss, y = {
        "softmax": (
            3,
            kl.losses.SoftmaxLoss(temperature=1.0),
            (x + rng.gumbel(size=x.shape)).argmax(axis=1),
        ),
        "bernoulli": (
            1,
            kl.losses.BernoulliLoss(temperature=1.0),
            (x[:, :1] > rng.logistic(size=(30, 1))).astype("float32"),
        ),
        "poisson": (
            1,
            kl.losses.PoissonLoss(),
            rng.poisson(np.exp(0.5 * x[:, :1])).astype("float32"),
        ),
    }[kind]
    options = {"activation": "exponential"} if kind == "poisson" else {}

    def fit(rows):
        prior = regularizers.DRidge()
        found = problem(prior, x[rows], y[rows], loss, outputs, **options)
        return found, found._fit(found._null(), 2.0)

    whole, approximate = fit(np.arange(30))
    exact = 0.0
    for i in range(30):
        _, left = fit(np.delete(np.arange(30), i))
        z = whole._x @ approximate.weights
        nll_rest = whole._nll(z, left.parameters)[0]
        z[i] = whole._x[i] @ left.weights
        without = whole._x @ approximate.weights
        difference = whole._nll(z, left.parameters)[0] - nll_rest
        slope = whole._nll(without, left.parameters)[0]
        exact += difference + slope / 30
    np.testing.assert_allclose(approximate.score, exact, rtol=0.02)


def test_l1_is_the_lasso_and_its_degrees_of_freedom(rng):
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = normal_data(rng)
    loss = kl.losses.NormalLoss(scale=1.0)
    found = problem(regularizers.DLasso(), x, y, loss)
    fit = found._fit(found._null(), 6.0)
    lasso = linear_model.Lasso(alpha=6 / 40, tol=1e-8).fit(x, y[:, 0])
    np.testing.assert_allclose(fit.weights[:-1, 0], lasso.coef_, atol=0.01)
    assert fit.freedom == pytest.approx(np.sum(lasso.coef_ != 0), abs=0.01)


@pytest.mark.parametrize("learned", [False, True])
def test_ridge_of_correlated_inputs_is_as_good_as_the_evidence(learned, rng):
    linear_model = pytest.importorskip("sklearn.linear_model")
    x = rng.standard_normal((80, 40))
    for j in range(1, 40):
        x[:, j] = 0.9 * x[:, j - 1] + 0.19**0.5 * x[:, j]
    true = rng.standard_normal(40)
    y = x @ true + 3 * rng.standard_normal(80)
    true, y = true / y.std(), y / y.std()
    peer = linear_model.BayesianRidge(fit_intercept=False).fit(x, y)
    loss = kl.losses.NormalLoss(scale="global" if learned else 0.4)
    prior = regularizers.DRidge()
    model = linear(prior, 40, loss, use_bias=False)
    decay = keras.optimizers.schedules.CosineDecay(0.05, 300)
    model.compile(keras.optimizers.Adam(decay, beta_2=0.99), loss=loss)
    data = x.astype("float32"), y[:, None].astype("float32")
    model.fit(*data, batch_size=80, epochs=300, verbose=0)
    weights = ops.convert_to_numpy(model.layers[-1].kernel)[:, 0]
    error, best = (np.mean((w - true) ** 2) for w in (weights, peer.coef_))
    assert error < 1.15 * best
    if learned:
        noise = float(model.loss.parameter_values()["scale"])
        assert 0.8 < noise / peer.alpha_**-0.5 < 1.25


def sparse_data(rng, rows=60, columns=60):
    x = rng.standard_normal((rows, columns)).astype("float32")
    weights = np.zeros((columns, 1))
    weights[:5, 0] = rng.uniform(1, 2, 5)
    y = x @ weights + rng.standard_normal((rows, 1))
    return x, (y / 4).astype("float32"), weights / 4


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "cls", [regularizers.DLasso, regularizers.MultiLasso], ids=str
)
def test_neither_weights_nor_noise_collapse(cls, rng):
    """As many weights as rows: the model could interpolate."""
    x, y, weights = sparse_data(rng)
    prior = cls()
    model = linear(prior, 60, kl.losses.NormalLoss(), use_bias=False)
    decay = keras.optimizers.schedules.CosineDecay(0.05, 200)
    model.compile(
        keras.optimizers.Adam(decay, beta_2=0.99), loss=kl.losses.NormalLoss()
    )
    model.fit(x, y, batch_size=60, epochs=200, verbose=0)
    found = ops.convert_to_numpy(model.layers[-1].kernel)
    assert 0.15 < float(model.loss.parameter_values()["scale"]) < 0.45
    assert np.mean((found - weights) ** 2) < 0.25 * np.mean(weights**2)
    assert not prior.switched_off(found)[:5].any()
    if cls is regularizers.MultiLasso:
        assert prior.switched_off(found)[5:].mean() > 0.8


def test_all_rows_train_and_the_report_says_so(rng):
    x, y = normal_data(rng)
    prior = regularizers.DRidge()
    model = linear(prior, 12, kl.losses.NormalLoss())
    model.fit(x.astype("float32"), y, batch_size=8, epochs=2, verbose=0)
    assert int(model.optimizer.iterations.numpy()) == 10
    (row,) = regularizers.report(model)
    assert row.rows == "leave-one-out, all rows"
    assert 0 < row.effective < 1
    factor = 1 / (2 * 40 * prior.scale().item() ** 2)
    np.testing.assert_allclose(row.strength, factor, rtol=1e-5)


@pytest.mark.parametrize("model_class", [kl.LikelihoodModel, keras.Model])
def test_stock_losses_and_stock_models(model_class, rng):
    x = rng.standard_normal((60, 5)).astype("float32")
    y = (x[:, :3] + rng.gumbel(size=(60, 3))).argmax(axis=1)
    scales = []
    for activation in None, "softmax":
        prior = regularizers.DRidge()
        inputs = keras.Input((5,))
        dense = keras.layers.Dense(3, activation, kernel_regularizer=prior)
        model = model_class(inputs, dense(inputs))
        loss = keras.losses.SparseCategoricalCrossentropy(activation is None)
        model.compile("adam", loss=loss)
        learn = regularizers.LearnScales(rows=(x, y))
        model.fit(x, y, callbacks=[learn], verbose=0)
        assert prior.source == "leave-one-out, all rows"
        assert 0 < prior.effective_weights() < 15
        scales.append(prior.scale().item())
    np.testing.assert_allclose(*scales, rtol=1e-2)


def test_a_probe_of_a_frozen_network_is_linear_and_dropout_is_not(rng):
    inputs = keras.Input((5,))
    hidden = keras.layers.Dense(7, "tanh", trainable=False)(inputs)
    for layer, is_linear in (
        (keras.layers.Activation("relu"), True),
        (keras.layers.Dropout(0.5), False),
        (keras.layers.BatchNormalization(), False),
        (keras.layers.Dense(4), False),
    ):
        dense = keras.layers.Dense(1, kernel_regularizer=regularizers.DRidge())
        model = kl.LikelihoodModel(inputs, dense(layer(hidden)))
        model.compile("adam", loss=kl.losses.NormalLoss())
        _ = model.losses
        weights = regularizers.adaptive_weights(model)
        assert (LinearModel.of(model, weights) is not None) == is_linear


def test_a_data_set_is_read(rng):
    x, y = normal_data(rng)
    prior = regularizers.DRidge(num_examples=40)
    model = linear(prior, 12, kl.losses.NormalLoss())
    model.fit(Repeated(4, x.astype("float32"), y), verbose=0)
    assert prior.source == "leave-one-out, all rows"
    assert prior.scale() != 1.0


def test_a_stock_model_says_once_that_its_scale_stays(rng):
    x = rng.standard_normal((32, 5)).astype("float32")
    prior = regularizers.DRidge(num_examples=32)
    model = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(1, kernel_regularizer=prior)]
    )
    model.compile("adam", loss="mse")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", UserWarning)
        model.fit(x, x[:, :1], epochs=2, verbose=0)
        model.fit(x, x[:, :1], verbose=0)
    said = [w for w in heard if "stays at its present" in str(w.message)]
    assert len(said) == 1
    assert prior.scale() == 1.0


def test_what_was_measured_is_saved(rng, tmp_path):
    x, y = normal_data(rng)
    prior = regularizers.MultiLasso()
    model = linear(prior, 12, kl.losses.NormalLoss())
    model.fit(x.astype("float32"), y, verbose=0)
    kernel = model.layers[-1].kernel
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    (weight,) = regularizers.adaptive_weights(again)
    twin = weight.regularizer
    assert twin.effective_weights() == prior.effective_weights() > 0
    np.testing.assert_array_equal(
        twin.switched_off(kernel), prior.switched_off(kernel)
    )
    np.testing.assert_array_equal(twin.strength(), prior.strength())


@pytest.mark.one_backend
def test_training_does_not_wait_for_every_step():
    """Keras reads the loss of each step for a callback with this method."""
    method = keras.callbacks.Callback.on_train_batch_end
    own = (regularizers.LearnScales, kl.DataParameter, FiniteLoss)
    for kind in own:
        assert kind.on_train_batch_end is method
        assert kind.on_batch_end is keras.callbacks.Callback.on_batch_end
