"""Scales that follow the curvature of the likelihood during training."""

import warnings

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import regularizers
from keras_likelihood.models.own_callbacks import FiniteLoss
from keras_likelihood.regularizers.fisher import (
    FisherInformation,
    matrix_shape,
    outcomes_of,
)
from tests.batches import Repeated


def correlated(rng, rows, columns, correlation=0.9):
    x = rng.standard_normal((rows, columns))
    for j in range(1, columns):
        x[:, j] *= np.sqrt(1 - correlation**2)
        x[:, j] += correlation * x[:, j - 1]
    return x


def linear(x, y, regularizer, loss, steps, outputs=1, rate=0.05):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((x.shape[1],))
    dense = keras.layers.Dense(
        outputs, use_bias=False, kernel_regularizer=regularizer
    )
    model = kl.LikelihoodModel(inputs, dense(inputs))
    decay = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(keras.optimizers.Adam(decay, beta_2=0.99), loss=loss)
    model.fit(Repeated(steps, x, y), verbose=0)
    return model, ops.convert_to_numpy(dense.kernel)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((7,), (1, 7)),
        ((5, 3), (5, 3)),
        ((3, 3, 64, 32), (576, 32)),
        ((64, 4, 16), (64, 64)),
    ],
)
def test_axes_are_split_into_a_matrix(shape, expected):
    assert matrix_shape(shape) == expected


def measured(model, rows, times=1):
    """Curvature of one example by the only weight, averaged."""
    found = []
    for seed in range(times):
        fisher = FisherInformation(
            model,
            model.trainable_weights,
            outcomes_of(model),
            lambda: 1.0,
            # On PyTorch the next draw has the next seed.
            seed=1000 * seed,
        )
        fisher.measure_if_due(16, lambda: rows)
        found.append(fisher.curvature_of(0, 1.0))
    return np.mean([curvature.matrix() for curvature in found], axis=0)


def dense_model(shape, units, loss, **options):
    inputs = keras.Input(shape)
    dense = keras.layers.Dense(units, use_bias=False, **options)
    model = kl.LikelihoodModel(inputs, dense(inputs))
    model.compile("adam", loss=loss)
    return model


def test_the_curvature_of_a_linear_model_is_its_design(rng):
    x = correlated(rng, 40, 6).astype("float32")
    model = dense_model((6,), 1, kl.losses.NormalLoss(scale=0.5))
    found = measured(model, {"x": x[:16]})
    np.testing.assert_allclose(found, x[:16].T @ x[:16] / 16 / 0.25, rtol=1e-4)


def test_weights_of_rows_count_in_the_curvature(rng):
    x = correlated(rng, 16, 3).astype("float32")
    weight = rng.uniform(0, 2, 16).astype("float32")
    model = dense_model((3,), 1, kl.losses.NormalLoss(scale=0.5))
    found = measured(model, {"x": x, "weight": weight})
    expected = (x.T * weight) @ x / 16 / 0.25
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["dict", "list"])
def test_each_output_has_its_own_row_weights(kind, rng):
    def by_output(*parts):
        names = dict(zip("uv", parts, strict=True))
        return names if kind == "dict" else list(parts)

    x = correlated(rng, 16, 3).astype("float32")
    weight = rng.uniform(0, 2, 16).astype("float32")
    inputs = keras.Input((3,))
    outputs = [keras.layers.Dense(1, use_bias=False)(inputs) for _ in "uv"]
    model = kl.LikelihoodModel(inputs, by_output(*outputs))
    losses = [kl.losses.NormalLoss(scale=0.5) for _ in "uv"]
    model.compile("adam", by_output(*losses), loss_weights=by_output(0.5, 2))
    weights = by_output(weight, np.ones(16, "float32"))
    found = measured(model, {"x": x, "weight": weights})
    expected = 0.5 * (x.T * weight) @ x / 16 / 0.25
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.few(0)
def test_masked_steps_do_not_count(rng):
    """A sequence and the same with padding have the same curvature."""
    x = rng.uniform(1, 2, (16, 3, 2)).astype("float32")
    padded = np.concatenate([x, np.zeros((16, 5, 2), "float32")], axis=1)
    found = []
    for steps, given in ((3, x), (8, padded)):
        inputs = keras.Input((steps, 2))
        hidden = keras.layers.Masking()(inputs)
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = kl.LikelihoodModel(inputs, dense(hidden))
        model.compile("adam", loss=kl.losses.NormalLoss(scale=0.5))
        found.append(measured(model, {"x": given}, times=40))
    np.testing.assert_allclose(*found, rtol=0.15)


@pytest.mark.few(0)
def test_drawn_targets_give_the_information_of_classes():
    model = dense_model(
        (1,),
        3,
        kl.losses.SoftmaxLoss(temperature=1.0),
        kernel_initializer="zeros",
    )
    found = measured(model, {"x": np.ones((512, 1), "float32")}, times=20)
    expected = np.eye(3) / 3 - 1 / 9
    np.testing.assert_allclose(found, expected, atol=0.05)


@pytest.mark.few(0)
def test_ridge_of_correlated_inputs_is_that_of_the_evidence(rng):
    linear_model = pytest.importorskip("sklearn.linear_model")
    x = correlated(rng, 60, 40).astype("float32")
    true = rng.standard_normal(40)
    y = (x @ true + 3 * rng.standard_normal(60)).astype("float32")
    reference = linear_model.BayesianRidge(fit_intercept=False).fit(x, y)
    prior = regularizers.DRidge(num_examples=60)
    steps = 500
    _, found = linear(x, y[:, None], prior, kl.losses.NormalLoss(), steps)
    np.testing.assert_allclose(
        prior.scale().item(), reference.lambda_**-0.5, rtol=0.15
    )
    error = np.mean((found[:, 0] - true) ** 2)
    assert error < 1.15 * np.mean((reference.coef_ - true) ** 2)


def test_ridge_of_a_logistic_regression_finds_its_strength(rng):
    linear_model = pytest.importorskip("sklearn.linear_model")
    x = rng.standard_normal((1100, 30)).astype("float32")
    true = rng.standard_normal((30, 1)) * 0.4
    y = rng.random((1100, 1)) < 1 / (1 + np.exp(-x @ true))
    y = y.astype("float32")
    prior = regularizers.DRidge(num_examples=100)
    loss = kl.losses.BernoulliLoss(temperature=1.0)
    _, found = linear(x[:100], y[:100], prior, loss, 400)

    def log_loss(weights):
        z = x[100:] @ weights
        return np.mean(np.logaddexp(0, z) - y[100:] * z)

    best = min(
        log_loss(
            linear_model.LogisticRegression(C=c, fit_intercept=False)
            .fit(x[:100], y[:100, 0])
            .coef_.T
        )
        for c in np.geomspace(1e-3, 1e2, 16)
    )
    assert log_loss(found) < 1.05 * best


def small_residual_network(make):
    inputs = keras.Input((8, 8, 3))

    def conv(strides=1):
        return keras.layers.Conv2D(
            8, 3, strides, "same", use_bias=False, kernel_regularizer=make()
        )

    x = conv()(inputs)
    y = keras.layers.BatchNormalization()(conv()(x))
    y = keras.layers.BatchNormalization()(conv()(ops.relu(y)))
    x = ops.relu(x + y)
    x = keras.layers.GlobalAveragePooling2D()(x)
    outputs = keras.layers.Dense(4, kernel_regularizer=make())(x)
    return kl.LikelihoodModel(inputs, outputs)


@pytest.mark.few(0)
@pytest.mark.parametrize("cls", [regularizers.DRidge, regularizers.MultiLasso])
def test_sgd_with_momentum_stays_finite(cls, rng):
    keras.utils.set_random_seed(0)
    model = small_residual_network(lambda: cls(num_examples=64))
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        loss=kl.losses.SoftmaxLoss(temperature=1.0),
    )
    x = rng.standard_normal((64, 8, 8, 3)).astype("float32")
    y = rng.integers(0, 4, 64)
    history = model.fit(x, y, batch_size=16, epochs=13, verbose=0).history
    assert np.all(np.isfinite(history["loss"]))
    assert np.isfinite(history["effective_weights"][-1])
    for weight in regularizers.adaptive_weights(model):
        assert np.all(np.isfinite(weight.regularizer.scale()))
        assert weight.regularizer.effective_weights() >= 0


def test_a_head_and_a_data_set_are_measured(rng):
    class Data(keras.utils.PyDataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            rows = slice(16 * i, 16 * (i + 1))
            return x[rows], y[rows]

    x = rng.standard_normal((64, 5)).astype("float32")
    y = (x[:, :1] + rng.standard_normal((64, 1))).astype("float32")
    inputs = keras.Input((5,))
    prior = regularizers.DRidge(num_examples=64)
    hidden = keras.layers.Dense(6, "tanh", kernel_regularizer=prior)(inputs)
    model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1)(hidden))
    model.compile("adam", loss=kl.losses.NormalLoss())
    model.fit(Data(), epochs=6, verbose=0)
    assert 0 < prior.effective_weights() <= 30
    assert prior.scale().item() != 1.0


def test_a_stock_model_is_measured_when_it_names_its_likelihood(rng):
    x = rng.standard_normal((40, 5)).astype("float32")
    prior = regularizers.DRidge(num_examples=40)
    model = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(1, kernel_regularizer=prior)]
    )
    model.compile("adam", loss=keras.losses.BinaryCrossentropy(True))
    measured = regularizers.LearnScales(x=x, likelihood="bernoulli")
    y = (x[:, 0] > 0).astype("float32")
    history = model.fit(x, y, epochs=20, callbacks=[measured], verbose=0)
    assert history.history["effective_weights"][-1] > 0


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


def test_a_generator_is_not_read_and_says_so(rng):
    def batches():
        while True:
            yield x, x[:, :1]

    x = rng.standard_normal((16, 5)).astype("float32")
    prior = regularizers.DRidge(num_examples=16)
    model = dense_model(
        (5,), 1, kl.losses.NormalLoss(scale=2.0), kernel_regularizer=prior
    )
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", UserWarning)
        model.fit(batches(), steps_per_epoch=20, verbose=0)
    assert any("No rule can choose" in str(w.message) for w in heard)
    assert prior.scale() == 1.0


def test_what_was_measured_is_saved(rng, tmp_path):
    x = rng.standard_normal((40, 5)).astype("float32")
    prior = regularizers.MultiLasso(num_examples=40)
    model, kernel = linear(x, x[:, :1], prior, kl.losses.NormalLoss(), 40)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    (weight,) = regularizers.adaptive_weights(again)
    twin = weight.regularizer
    assert twin.effective_weights() == prior.effective_weights() > 0
    np.testing.assert_array_equal(
        twin.switched_off(kernel), prior.switched_off(kernel)
    )


@pytest.mark.one_backend
def test_training_does_not_wait_for_every_step():
    """Keras reads the loss of each step for a callback with this method."""
    method = keras.callbacks.Callback.on_train_batch_end
    own = (
        regularizers.LearnScales,
        kl.DataParameter,
        FiniteLoss,
    )
    for kind in own:
        assert kind.on_train_batch_end is method
        assert kind.on_batch_end is keras.callbacks.Callback.on_batch_end
