"""The strength of a linear classifier, by leaving out each example.

The evidence takes the curvature as fixed, although it falls as the weights of
a classifier grow. Where classes hardly overlap this makes the prior too
narrow. Here the prior is judged by the log-loss of every example under the
weights that the other examples give. A Newton step from the weights of all
examples gives those weights nearly (Rad and Maleki, 2020). The evidence with
the curvature at the fitted weights is added. All is NumPy in float64.
"""

import math

import keras
import numpy as np

from keras_likelihood.regularizers.class_outputs import (
    class_shares,
    mean_of,
    only_softmax,
)
from keras_likelihood.regularizers.curvature import LARGEST_MATRIX
from keras_likelihood.regularizers.d_ridge import has_one_scale
from keras_likelihood.regularizers.pruning import other_variables

_STEP = 0.5
_MOST_STEPS = 20
_NEWTON_STEPS = 30


class LinearClassifier:
    """Chooses the L2 prior of a linear classifier by leaving out examples.

    Args:
        x: array `(examples, inputs)`.
        shares: array `(examples, classes)`, the share of each class.
        bias: whether the classifier has one, which has no prior.
    """

    def __init__(self, x, shares, bias: bool = True):
        ones = [np.ones((len(x), 1))] if bias else []
        self._x = np.concatenate([x, *ones], axis=1)
        self._shares = shares
        has_prior = np.arange(self._x.shape[1]) < x.shape[1]
        self._prior = np.repeat(has_prior.astype("float64"), shares.shape[1])

    def best_scale(self) -> float:
        """The scale with the least loss.

        The loss is the log-loss of the examples left out, minus the logarithm
        of the evidence. Alone, the first lets the weights grow without bound
        if no example is on the wrong side, and the second is too cautious. The
        search goes downhill from the scale at which signal and noise are equal.
        """
        weight = np.zeros((self._x.shape[1], self._shares.shape[1]))
        start = self._even(self._curvature(weight))
        here, weight = self._judged(start, weight)
        below, _ = self._judged(start - _STEP, weight)
        step = -_STEP if below < here else _STEP
        if step < 0:
            place, last, here = start - _STEP, here, below
        else:
            place, last = start, below
        for _ in range(_MOST_STEPS):
            ahead, weight = self._judged(place + step, weight)
            if not ahead < here:
                break
            place, last, here = place + step, here, ahead
        bend = ahead - 2.0 * here + last
        if bend > 0:
            place += 0.5 * step * (last - ahead) / bend
        return math.exp(place)

    def _judged(self, log_scale, weight):
        """Loss of a scale, and the weights under it, found from others."""
        prior = self._prior * math.exp(-2.0 * log_scale)
        weight = self._fitted(weight, prior)
        curvature = self._curvature(weight)
        loss = self._loss(weight, prior, curvature)
        return loss + self._evidence(weight, prior, curvature), weight

    def _evidence(self, weight, prior, curvature):
        """Negative logarithm of the Laplace evidence, up to a constant."""
        on = prior > 0
        known = curvature[np.ix_(on, on)] + np.diag(prior[on])
        width = np.linalg.slogdet(known)[1] - np.sum(np.log(prior[on]))
        return self._objective(weight, prior) + 0.5 * width

    def _even(self, curvature):
        """Logarithm of the scale at which signal and noise are equal."""
        total = np.sum(np.diagonal(curvature) * self._prior)
        return 0.5 * math.log(len(self._x) / max(total, 1e-30))

    def _fitted(self, weight, prior):
        """The weights under a prior, by Newton's method."""
        value = self._objective(weight, prior)
        for _ in range(_NEWTON_STEPS):
            pull = mean_of(self._x @ weight) - self._shares
            slope = (self._x.T @ pull).ravel() + prior * weight.ravel()
            whole = _with_diagonal(self._curvature(weight), prior)
            step = np.linalg.solve(whole, slope).reshape(weight.shape)
            for _ in range(12):
                moved = weight - step
                found = self._objective(moved, prior)
                if found <= value:
                    break
                step = 0.5 * step
            else:
                break
            gain, value, weight = value - found, found, moved
            if gain < 1e-4:
                break
        return weight

    def _objective(self, weight, prior):
        loss = np.sum(_log_loss(self._x @ weight, self._shares))
        return loss + 0.5 * np.sum(prior * weight.ravel() ** 2)

    def _curvature(self, weight):
        return _curvature(self._x, _information(mean_of(self._x @ weight)))

    def _loss(self, weight, prior, curvature):
        """Log-loss of all examples, each when it is left out."""
        logits = self._x @ weight
        mean = mean_of(logits)
        rows, (inputs, classes) = len(logits), weight.shape
        inverse = np.linalg.inv(_with_diagonal(curvature, prior))
        inverse = inverse.reshape(inputs, classes, inputs, classes)
        # How far the logits of an example move if it pulls at them.
        give = np.empty((rows, classes, classes))
        for i in range(classes):
            for j in range(i, classes):
                beside = self._x @ inverse[:, i, :, j]
                give[:, i, j] = np.sum(beside * self._x, axis=1)
                give[:, j, i] = give[:, i, j]
        pull = (mean - self._shares)[..., None]
        left = np.eye(classes) - _information(mean) @ give
        logits = logits + (give @ np.linalg.solve(left, pull))[..., 0]
        return np.sum(_log_loss(logits, self._shares))


def linear_classifier(model, weights, outcomes, examples):
    """The model as a `LinearClassifier`; `None` if it is something else.

    Args:
        model: any model.
        weights: its variables with an adaptive regularizer.
        outcomes: function from the model's output to a list of
            `(distribution, alone, weight)`.
        examples: function that returns `(x, y)`, inputs and targets of the
            model, or `None`.
    """
    known = other_variables(model, weights)
    if len(weights) != 1 or len(known) > 2 or not _is_small(weights[0]):
        return None
    (kernel,) = weights
    biases = [v for v in known if v is not kernel]
    held = getattr(model, "loss_parameters", None)
    if held is not None and held.learned():
        return None
    drawn = examples()
    if drawn is None:
        return None
    x, arrays = drawn[0], keras.tree.flatten(drawn)
    if len(arrays) != 2:
        return None
    distribution = only_softmax(outcomes(model(x, training=False)))
    if distribution is None:
        return None
    logits = keras.ops.convert_to_numpy(distribution.prediction)
    # With two classes the evidence errs as little on the average, and less
    # where some new examples are far on the wrong side.
    if logits.ndim != 2 or logits.shape[1] == 2:
        return None
    x, y = map(keras.ops.convert_to_numpy, arrays)
    shares = class_shares(y, logits.shape)
    x = x.reshape(len(logits), -1).astype("float64")
    if shares is None or x.shape[1] != kernel.shape[0]:
        return None
    expected = x @ keras.ops.convert_to_numpy(kernel)
    for bias in biases:
        expected = expected + keras.ops.convert_to_numpy(bias)
    if not np.allclose(logits, expected, rtol=1e-2, atol=1e-2):
        return None
    temperature = keras.ops.convert_to_numpy(distribution.temperature)
    # Batches that come again would be there when an example is left out.
    rows = slice(int(kernel.regularizer.num_examples))
    x = x[rows] / np.mean(temperature)
    return LinearClassifier(x, shares[rows], bool(biases))


def _is_small(kernel):
    return (
        has_one_scale(kernel.regularizer)
        and len(kernel.shape) == 2
        and math.prod(kernel.shape) <= LARGEST_MATRIX
    )


def _information(mean):
    """Fisher information of the logits, `(examples, classes, classes)`."""
    diagonal = mean[..., None] * np.eye(mean.shape[1])
    return diagonal - mean[..., None] * mean[:, None, :]


def _log_loss(logits, shares):
    largest = logits.max(axis=1, keepdims=True)
    total = np.log(np.sum(np.exp(logits - largest), axis=1)) + largest[:, 0]
    return total - np.sum(logits * shares, axis=1)


def _curvature(x, information):
    inputs, classes = x.shape[1], information.shape[1]
    found = np.empty((inputs, classes, inputs, classes))
    for i in range(classes):
        for j in range(i, classes):
            found[:, i, :, j] = (x.T * information[:, i, j]) @ x
            found[:, j, :, i] = found[:, i, :, j]
    return found.reshape(inputs * classes, inputs * classes)


def _with_diagonal(curvature, prior):
    # All classes together may move without any effect on the loss.
    jitter = 1e-7 * np.trace(curvature) / len(curvature)
    return curvature + np.diag(prior + jitter)
