"""Networks that separate classes are regularized less."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import regularizers
from keras_likelihood.regularizers.confidence import (
    Confidence,
    confidence_move,
)
from keras_likelihood.regularizers.curvature import Curvature
from tests.batches import many_times


def network(rows, hidden=16, inputs=2):
    keras.utils.set_random_seed(0)
    x = keras.Input((inputs,))
    found = x
    for units in (hidden, 3):
        prior = regularizers.DRidge(num_examples=rows)
        found = keras.layers.Dense(
            units, "relu" if units == hidden else None, kernel_regularizer=prior
        )(found)
    model = kl.LikelihoodModel(x, found)
    loss = kl.losses.SoftmaxLoss(temperature=1.0)
    model.compile(keras.optimizers.Adam(0.01), loss=loss)
    return model


def classes(rng, rows):
    """Three classes far apart in two of eight inputs."""
    y = np.arange(rows) % 3
    x = 0.6 * rng.standard_normal((rows, 8))
    x[:, :2] += np.array([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])[y]
    return x.astype("float32"), y


def identity(rows, size):
    """A network whose logits are `size` times its inputs."""
    model = network(rows, hidden=3, inputs=3)
    first, last = regularizers.adaptive_weights(model)
    first.assign(np.eye(3))
    last.assign(size * np.eye(3))
    curvatures = []
    for weight in (first, last):
        curvatures.append(Curvature(weight.shape, rows))
        curvatures[-1].update(np.eye(3) / rows, np.eye(3) / rows)
    return model, [first, last], curvatures


def outcomes(output):
    return [(kl.likelihoods.Softmax(output, temperature=1.0), True, 1.0)]


def test_the_move_follows_the_best_temperature(rng):
    logits = rng.standard_normal((4000, 3))
    logits -= logits.mean(axis=1, keepdims=True)
    noise = rng.gumbel(size=logits.shape)
    shares = np.eye(3)[np.argmax(logits + noise, axis=1)]
    assert confidence_move(logits, shares) == pytest.approx(0.0, abs=0.25)
    assert confidence_move(0.5 * logits, shares) < -0.49
    assert confidence_move(2.0 * logits, shares) > 0.49


def test_the_factor_falls_where_classes_are_apart(rng):
    y = np.arange(60) % 3
    x = np.eye(3, dtype="float32")[y]
    wrong = rng.permutation(y)
    model, weights, curvatures = identity(len(x), 1.0)
    data = [(x, y)]
    found = Confidence(model, outcomes, lambda: data[0])
    found.update(weights, curvatures)
    found.update(weights, curvatures)
    assert found.factor == pytest.approx(np.exp(-1.0), rel=0.01)
    data[0] = x, np.eye(3)[y]
    found.update(weights, curvatures)
    assert found.factor == pytest.approx(np.exp(-1.5), rel=0.01)
    data[0] = x, wrong
    for _ in range(4):
        found.update(weights, curvatures)
    assert found.factor == 1.0


def test_other_models_keep_the_evidence():
    y = np.arange(60) % 3
    x = np.eye(3, dtype="float32")[y]
    model, weights, curvatures = identity(len(x), 1.0)

    def factor(
        examples, outcomes=outcomes, weights=weights, curvatures=curvatures
    ):
        found = Confidence(model, outcomes, lambda: examples)
        found.update(weights, curvatures)
        return found.factor

    assert factor((x, y)) < 1.0
    assert factor(None) == 1.0
    assert factor((x, y - 1)) == 1.0
    assert factor((x, y), weights=weights[:1], curvatures=curvatures[:1]) == 1.0
    normal = kl.likelihoods.Normal
    of_numbers = [(normal(x, scale=1.0), True, 1.0)]
    assert factor((x, x), lambda output: of_numbers) == 1.0


def test_a_network_is_sure_of_classes_far_apart(rng):
    x, y = classes(rng, 90)
    model = network(len(x), inputs=8)
    measured = regularizers.MeasuredCurvature(x, y)
    data = many_times(40, x, y)
    model.fit(*data, batch_size=10, callbacks=[measured], verbose=0)
    assert measured._confidence.factor < 0.5
    new_x, new_y = classes(rng, 600)
    law = model.predict_distribution(new_x)
    # By the evidence alone it is 0.041.
    assert keras.ops.convert_to_numpy(law.nll(new_y)).mean() < 0.025
