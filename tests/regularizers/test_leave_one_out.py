"""The strength of a linear classifier follows the examples left out."""

import keras
import numpy as np
import pytest
from scipy import optimize, special

import keras_likelihood as kl
from keras_likelihood import regularizers
from keras_likelihood.regularizers.example_inputs import (
    ExampleInputs,
    training_part,
)
from keras_likelihood.regularizers.leave_one_out import (
    LinearClassifier,
    linear_classifier,
)


def log_loss(logits, shares):
    return special.logsumexp(logits, axis=1) - np.sum(logits * shares, axis=1)


def fitted(x, shares, strength):
    """The best weights, bias in the last row, by a general optimizer."""
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    shape = x.shape[1], shares.shape[1]

    def objective(flat):
        weight = flat.reshape(shape)
        penalty = 0.5 * strength * np.sum(weight[:-1] ** 2)
        logits = x @ weight
        slope = x.T @ (special.softmax(logits, axis=1) - shares)
        slope[:-1] += strength * weight[:-1]
        return np.sum(log_loss(logits, shares)) + penalty, slope.ravel()

    found = optimize.minimize(
        objective, np.zeros(shape).ravel(), jac=True, tol=1e-8
    )
    return found.x.reshape(shape)


def classes(rng, rows, apart):
    y = np.arange(rows) % 3
    centres = apart * rng.standard_normal((3, 3))
    return centres[y] + rng.standard_normal((rows, 3)), np.eye(3)[y]


def left_out(x, shares, strength):
    """Log-loss of all examples, each under weights of the others."""
    total = 0.0
    for i in range(len(x)):
        others = np.arange(len(x)) != i
        weight = fitted(x[others], shares[others], strength)
        logits = np.append(x[i], 1.0) @ weight
        total += log_loss(logits[None], shares[i : i + 1])[0]
    return total


def test_the_loss_is_that_of_leaving_out_each_example(rng):
    x, shares = classes(rng, 24, 1.0)
    weight, expected = fitted(x, shares, 1.0), left_out(x, shares, 1.0)
    classifier = LinearClassifier(x, shares)
    prior = np.repeat([1.0, 0.0], [9, 3])
    curvature = classifier._curvature(weight)
    found = classifier._loss(weight, prior, curvature)
    assert found == pytest.approx(expected, rel=0.05)
    seen = log_loss(x @ weight[:-1] + weight[-1], shares)
    assert expected > 1.1 * np.sum(seen)
    again = classifier._fitted(np.zeros_like(weight), prior)
    np.testing.assert_allclose(again[:-1], weight[:-1], atol=0.02)


def test_the_best_scale_has_the_least_loss(rng):
    x, shares = classes(rng, 30, 0.7)
    strength = LinearClassifier(x, shares).best_scale() ** -2
    low, best, high = (left_out(x, shares, f * strength) for f in (0.1, 1, 10))
    assert best < low
    assert best < high


def test_classes_apart_ask_for_less_than_no_signal(rng):
    x, shares = classes(rng, 60, 3.0)
    apart = LinearClassifier(x, shares).best_scale()
    noise = LinearClassifier(x, rng.permutation(shares)).best_scale()
    assert noise < 0.2 * apart


def test_a_linear_classifier_is_recognised(rng):
    x = rng.standard_normal((40, 3)).astype("float32")
    y = np.digitize(x[:, 0], [-0.5, 0.5])
    prior = regularizers.DRidge(num_examples=len(x))
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(3, kernel_regularizer=prior)(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.SoftmaxLoss(temperature=1.0))
    measured = regularizers.MeasuredCurvature(x, y)
    model.fit(x, y, batch_size=4, epochs=4, callbacks=[measured], verbose=0)
    assert measured._classifier is not None
    assert prior.scale().item() != 1.0
    weights = regularizers.adaptive_weights(model)

    def found(examples, outcomes=measured._outcomes):
        return linear_classifier(model, weights, outcomes, lambda: examples)

    assert found((x, y)) is not None
    assert found((x, np.eye(3)[y])) is not None
    assert found(None) is None
    # A batch that comes again is one batch.
    twice = found((np.tile(x, (2, 1)), np.tile(y, 2)))
    assert twice.best_scale() == found((x, y)).best_scale()
    normal = kl.likelihoods.Normal
    assert found((x, y), lambda p: [(normal(p, scale=1.0), True, 1.0)]) is None
    model.compile("adam", loss=kl.losses.SoftmaxLoss())
    assert found((x, y)) is None
    model.compile("adam", loss=kl.losses.SoftmaxLoss(temperature=1.0))
    assert found((x, y)) is not None
    model.layers[-1].activation = keras.activations.tanh
    model.layers[-1].kernel.assign(3.0 * np.ones((3, 3)))
    assert found((x, y)) is None


def test_targets_stay_beside_their_inputs():
    x = np.arange(100)
    x_some, y_some = ExampleInputs(x, 10, y=2 * x).draw_with_targets()
    assert len(x_some) == 10
    np.testing.assert_array_equal(y_some, 2 * x_some)
    batches = [(x[:5], -x[:5]), (x[5:], -x[5:])]
    x_some, y_some = ExampleInputs(iter(batches), 10).draw_with_targets()
    np.testing.assert_array_equal(y_some, -x_some)
    assert ExampleInputs(x).draw_with_targets() is None
    assert ExampleInputs([x[:5]]).draw_with_targets() is None


def test_rows_for_validation_are_left_out():
    x = np.arange(10)
    assert len(training_part(x, 0.25)) == 7
    assert training_part(x) is x
