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
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
        shares = np.concatenate([1 - shares, shares], axis=1)
    return special.logsumexp(logits, axis=1) - np.sum(logits * shares, axis=1)


def fitted(x, shares, strength):
    """The best weights, bias in the last row, by a general optimizer."""
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    shape = x.shape[1], shares.shape[1]

    def objective(flat):
        weight = flat.reshape(shape)
        penalty = 0.5 * strength * np.sum(weight[:-1] ** 2)
        logits = x @ weight
        if shape[1] == 1:
            mean = special.expit(logits)
        else:
            mean = special.softmax(logits, axis=1)
        slope = x.T @ (mean - shares)
        slope[:-1] += strength * weight[:-1]
        return np.sum(log_loss(logits, shares)) + penalty, slope.ravel()

    found = optimize.minimize(
        objective, np.zeros(shape).ravel(), jac=True, tol=1e-8
    )
    return found.x.reshape(shape)


def classifier(x, shares, strength):
    """A `LinearClassifier` at its optimum."""
    weight = fitted(x, shares, strength)
    prior = regularizers.DRidge(
        num_examples=len(x), initial_scale=strength**-0.5
    )
    prior.build(weight[:-1].shape)
    kernel, bias = keras.Variable(weight[:-1]), keras.Variable(weight[-1])
    kernel.regularizer = prior
    return LinearClassifier(kernel, bias, x, shares)


def classes(rng, rows, apart, count):
    y = np.arange(rows) % max(count, 2)
    centres = apart * rng.standard_normal((max(count, 2), 3))
    x = centres[y] + rng.standard_normal((rows, 3))
    return x, y[:, None].astype(float) if count == 1 else np.eye(count)[y]


@pytest.mark.parametrize("count", [1, 3])
def test_the_loss_is_that_of_leaving_out_each_example(count, rng):
    x, shares = classes(rng, 24, 1.0, count)
    strength, expected = 1.0, []
    for i in range(len(x)):
        others = np.arange(len(x)) != i
        weight = fitted(x[others], shares[others], strength)
        logits = np.append(x[i], 1.0) @ weight
        expected.append(log_loss(logits[None], shares[i : i + 1])[0])
    weight = fitted(x, shares, strength)
    prior = np.repeat([strength, 0.0], [3 * count, count])
    found = classifier(x, shares, strength)._loss(weight, prior, len(x))
    assert found == pytest.approx(np.sum(expected), rel=0.05)
    seen = log_loss(x @ weight[:-1] + weight[-1], shares)
    assert np.sum(expected) > 1.1 * np.sum(seen)


def test_classes_apart_ask_for_less_and_no_signal_for_more(rng):
    x, shares = classes(rng, 60, 3.0, 3)
    apart = classifier(x, shares, 5.0)
    scale = apart.kernel.regularizer.scale().item()
    assert apart.better_scale() > 1.3 * scale
    noise = classifier(x, rng.permutation(shares), 0.05)
    scale = noise.kernel.regularizer.scale().item()
    assert noise.better_scale() < 0.8 * scale


def test_a_linear_classifier_is_recognised(rng):
    x = rng.standard_normal((40, 3)).astype("float32")
    y = (x[:, 0] > 0).astype("int32")
    prior = regularizers.DRidge(num_examples=len(x))
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(2, kernel_regularizer=prior)(inputs)
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
    assert found((x, np.eye(2)[y])) is not None
    assert found(None) is None
    normal = kl.likelihoods.Normal
    assert found((x, y), lambda p: [(normal(p, scale=1.0), True, 1.0)]) is None
    model.layers[-1].activation = keras.activations.tanh
    model.layers[-1].kernel.assign(3.0 * np.ones((3, 2)))
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
