"""Counts and other targets in models, metrics and reports."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import likelihoods
from tests.contracts import EAGERLY, as_numpy


@pytest.fixture
def counts(rng):
    x = rng.normal(size=(64, 2)).astype("float32")
    return x, rng.poisson(np.exp(0.5 * x[:, :1])).astype("float32")


def model_of(layer, loss, model=keras.Model, **options):
    inputs = keras.Input((2,))
    built = model(inputs, layer(inputs))
    built.compile(
        keras.optimizers.SGD(0.05), loss=loss, run_eagerly=EAGERLY, **options
    )
    return built


def test_a_stock_model_counts(counts):
    x, y = counts
    layer = keras.layers.Dense(1, activation="softplus")
    model = model_of(layer, kl.losses.PoissonLoss(), metrics=["mse"])
    history = model.fit(x, y, epochs=4, verbose=0).history["loss"]
    assert history[-1] < history[0]
    # Softplus of -200 is exactly 0: the loss and its gradient are finite.
    layer.bias.assign([-200.0])
    assert np.isfinite(model.evaluate(x, y, verbose=0)[0])
    model.train_on_batch(x, y)
    assert np.all(np.isfinite(as_numpy(layer.kernel.value)))


@pytest.mark.parametrize(
    "loss, y",
    [
        (kl.losses.PoissonLoss(), 2.0),
        (kl.losses.GammaLoss(), 2.0),
        (kl.losses.BetaLoss(), 0.4),
    ],
    ids=["poisson", "gamma", "beta"],
)
def test_a_prediction_outside_of_its_range_is_told(loss, y):
    layer = keras.layers.Dense(
        1,
        kernel_initializer="zeros",
        bias_initializer=lambda s, **_: -ops.ones(s),
    )
    model = model_of(layer, loss, kl.LikelihoodModel)
    x = np.ones((4, 2), "float32")
    with pytest.raises(ValueError, match="loss is NaN.*'softplus'"):
        model.fit(x, np.full((4, 1), y), verbose=0)


@pytest.mark.parametrize(
    "name, bad, message",
    [
        ("poisson", -1.0, r"whole numbers >= 0. Received: \[-1.0\]"),
        ("negative_binomial", 1.5, "whole numbers"),
        ("zero_inflated(poisson)", np.inf, "whole numbers"),
        ("gamma", 0.0, r"finite numbers > 0. Received: \[0.0\]"),
        ("log_normal", -2.0, "finite numbers > 0"),
        ("weibull", np.nan, "finite numbers > 0"),
        ("exponential", -0.5, "finite numbers >= 0"),
        ("beta", 1.0, "strictly between 0 and 1"),
        ("von_mises", np.inf, "finite"),
    ],
)
def test_impossible_targets_are_refused_and_score_nan(name, bad, message):
    likelihood = likelihoods.get(name)
    y = np.array([[0.5 if name == "beta" else 1.0], [bad]], "float32")
    with pytest.raises(ValueError, match=message):
        likelihood.check_targets(y, (None, 1))
    likelihood.check_targets(y[:1], (None, 1))
    half = np.full((2, 1), 0.5, "float32")
    found = as_numpy(likelihood(half).nll(y))
    assert np.isfinite(found[0, 0]) and np.isnan(found[1, 0])


def test_the_prediction_of_a_head_is_the_mean(counts):
    x, _ = counts
    for name in ("poisson", "gamma", "beta"):
        output = kl.layers.LikelihoodHead(name, 1)(1e4 * x)
        prediction = as_numpy(keras.tree.flatten(output)[0])
        assert np.all(prediction >= 0) and np.all(np.isfinite(prediction))
        assert name != "beta" or np.all(prediction <= 1)
    head = kl.layers.LikelihoodHead("gamma", 1, activation="exponential")
    again = type(head).from_config(head.get_config())
    again(x)
    assert again.prediction.activation is keras.activations.exponential
    np.testing.assert_allclose(
        as_numpy(head(x)[0]),
        np.exp(x @ as_numpy(head.prediction.kernel.value)),
        rtol=1e-5,
    )


def test_brier_score_of_ordered_classes(rng):
    y = rng.integers(0, 4, size=(20, 1))
    loss = kl.losses.OrdinalLoss(4, gaps=1.0)
    score = rng.normal(size=(20, 1)).astype("float32")
    found = loss.distribution(score)
    metric = kl.metrics.BrierScore()
    metric.update_state(y, found)
    p = as_numpy(found.class_probabilities())[:, 0]
    expected = ((p - np.eye(4)[y[:, 0]]) ** 2).sum(axis=1).mean()
    np.testing.assert_allclose(as_numpy(metric.result()), expected, rtol=1e-5)


def test_recalibration_is_for_errors_around_a_prediction(counts):
    x, y = counts
    head = kl.layers.LikelihoodHead("gamma", 1)
    model = model_of(head, kl.losses.GammaLoss(), kl.LikelihoodModel)
    recalibrator = kl.recalibration.regression.GlobalRescaling()
    with pytest.raises(ValueError, match="LocationScale.*Received: gamma"):
        recalibrator.fit(model, x, y + 1)
