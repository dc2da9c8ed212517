"""The strength of a linear classifier, by leaving out each example.

The evidence takes the curvature as fixed, although it falls as the weights of
a classifier grow. Where classes hardly overlap this makes the prior too
narrow. Here the prior is judged by the log-loss of every example under the
weights that the other examples give. A Newton step from the present weights
gives those weights nearly (Rad and Maleki, 2020), so that nothing is fitted
again. All is NumPy in float64.
"""

import math

import keras
import numpy as np

from keras_likelihood.likelihoods.bernoulli import Bernoulli
from keras_likelihood.likelihoods.softmax import Softmax
from keras_likelihood.regularizers.curvature import LARGEST_MATRIX
from keras_likelihood.regularizers.d_ridge import DRidge

_STEP = 0.5
_SHARE = 0.05


class LinearClassifier:
    """A linear classifier with an L2 prior, and examples to judge it by.

    Args:
        kernel: `keras.Variable`, `(inputs, classes)`, or `(inputs, 1)` for
            the logit of a yes.
        bias: `keras.Variable` or `None`.
        x: array `(examples, inputs)`.
        shares: array `(examples, classes)`, the share of each class.
        temperature: what the logits are divided by.
    """

    def __init__(self, kernel, bias, x, shares, temperature: float = 1.0):
        self.kernel = kernel
        self._bias = bias
        ones = [np.ones((len(x), 1))] if bias is not None else []
        self._x = np.concatenate([x, *ones], axis=1) / temperature
        self._shares = shares

    @property
    def pause(self) -> int:
        """Number of training steps after which a look is worth its time."""
        rows, inputs = self._x.shape
        classes = self._shares.shape[1]
        inverses = 6 * (inputs * classes) ** 3
        products = 6 * rows * (inputs * classes) ** 2
        return int(1.5e-7 * (inverses + products))

    def better_scale(self):
        """A scale of the prior under which examples left out have less loss.

        The present scale, and one above and below it, are compared. The lowest
        point of the parabola through the three is taken if it is between them.
        The evidence counts a little too. It decides where few examples say
        little, or where no scale is too large.
        """
        weight = keras.ops.convert_to_numpy(self.kernel).astype("float64")
        regularizer = self.kernel.regularizer
        scale = float(regularizer.scale().item())
        weight, prior = self._with_bias(weight)
        curvature = self._curvature(weight, regularizer.num_examples)
        here = scale**-2.0
        known = np.linalg.inv(_with_diagonal(curvature, here * prior))
        freedom = np.sum(prior) - here * np.sum(np.diagonal(known) * prior)
        size = here * np.sum(prior * weight.ravel() ** 2)
        losses = []
        for step in (-_STEP, 0.0, _STEP):
            strength = here * math.exp(-2.0 * step)
            # The gradient of the likelihood is what holds the prior's.
            excess = (strength - here) * prior * weight.ravel()
            moved = _solve(curvature, strength * prior, excess)
            moved = weight - moved.reshape(weight.shape)
            loss = self._loss(moved, strength * prior, regularizer.num_examples)
            # MacKay's fixed point is where the freedom equals the size.
            losses.append(loss + _SHARE * (freedom - size) * step)
        return scale * math.exp(_lowest(*losses))

    def _with_bias(self, weight):
        """All weights, and 1 for each that has the prior."""
        prior = np.ones(weight.size)
        if self._bias is None:
            return weight, prior
        bias = keras.ops.convert_to_numpy(self._bias).astype("float64")
        return (
            np.concatenate([weight, bias[None]]),
            np.concatenate([prior, np.zeros(bias.size)]),
        )

    def _curvature(self, weight, num_examples):
        found = _curvature(self._x, _information(_mean(self._x @ weight)))
        return found * (num_examples / len(self._x))

    def _loss(self, weight, prior, num_examples):
        """Log-loss of all examples, each when it is left out."""
        logits = self._x @ weight
        mean = _mean(logits)
        information = _information(mean)
        curvature = self._curvature(weight, num_examples)
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
        left = np.eye(classes) - information @ give
        logits = logits + (give @ np.linalg.solve(left, pull))[..., 0]
        return num_examples * np.mean(_log_loss(logits, self._shares))


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
    own = {id(v) for w in weights for v in w.regularizer.variables}
    known = [v for v in model.variables if id(v) not in own]
    if len(weights) != 1 or len(known) > 2 or not _is_small(weights[0]):
        return None
    (kernel,) = weights
    biases = [v for v in known if v is not kernel]
    examples = examples()
    if examples is None:
        return None
    x, y = examples
    inputs = keras.tree.flatten(x)
    if len(inputs) != 1:
        return None
    found = outcomes(model(x, training=False))
    distribution, alone, weight = found[0]
    if len(found) > 1 or not alone or weight != 1.0:
        return None
    logits = keras.ops.convert_to_numpy(distribution.prediction)
    y, x = map(keras.ops.convert_to_numpy, (y, inputs[0]))
    shares = _shares(distribution, y, logits.shape)
    x = x.reshape(len(logits), -1).astype("float64")
    if shares is None or x.shape[1] != kernel.shape[0]:
        return None
    expected = x @ keras.ops.convert_to_numpy(kernel)
    for bias in biases:
        expected = expected + keras.ops.convert_to_numpy(bias)
    if not np.allclose(logits, expected, rtol=1e-2, atol=1e-2):
        return None
    temperature = keras.ops.convert_to_numpy(distribution.temperature)
    return LinearClassifier(
        kernel,
        biases[0] if biases else None,
        x,
        shares,
        float(np.mean(temperature)),
    )


def _is_small(kernel):
    regularizer = kernel.regularizer
    return (
        isinstance(regularizer, DRidge)
        and regularizer.objective == "evidence"
        and regularizer.group == "tensor"
        and len(kernel.shape) == 2
        and math.prod(kernel.shape) <= LARGEST_MATRIX
    )


def _shares(distribution, y, shape):
    """Targets as shares of the classes; `None` if it has no classes."""
    if len(shape) != 2:
        return None
    if isinstance(distribution, Bernoulli) and shape[1] == 1:
        return y.reshape(shape).astype("float64")
    if not isinstance(distribution, Softmax):
        return None
    if y.shape == shape:
        return y.astype("float64")
    return np.eye(shape[1])[y.reshape(len(y)).astype(int)]


def _mean(logits):
    if logits.shape[1] == 1:
        return 0.5 * (1.0 + np.tanh(0.5 * logits))
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _information(mean):
    """Fisher information of the logits, `(examples, classes, classes)`."""
    if mean.shape[1] == 1:
        return (mean * (1.0 - mean))[..., None]
    diagonal = mean[..., None] * np.eye(mean.shape[1])
    return diagonal - mean[..., None] * mean[:, None, :]


def _log_loss(logits, shares):
    if logits.shape[1] == 1:
        return np.logaddexp(0.0, logits[:, 0]) - (logits * shares)[:, 0]
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


def _solve(curvature, prior, right):
    return np.linalg.solve(_with_diagonal(curvature, prior), right)


def _lowest(below, here, above):
    """The step to the lowest point of three, or of their parabola."""
    bend = below - 2.0 * here + above
    slope = 0.5 * (above - below)
    if not bend > 0:
        return math.copysign(_STEP, -slope)
    return float(np.clip(-slope / bend, -1.0, 1.0)) * _STEP
