"""Likelihoods of binary, categorical and ordinal targets."""

import itertools
import math
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods.checks import check_size
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.method_calls import method
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Parametrized
from keras_likelihood.likelihoods.special import floor
from keras_likelihood.likelihoods.tails import log_one_minus_exp


class Bernoulli(Likelihood):
    """Independent binary outcomes from logits.

        nll(y) = log(1 + exp(l)) - y l,    l = prediction / temperature

    At `temperature = 1` it is the binary cross-entropy.

    Args:
        prediction: logits, `(batch, ..., units)`.
        temperature: `> 0`. Defaults to 1.
    """

    parameters = (Parameter("temperature", ShiftedSoftplus(0.2), neutral=True),)
    is_discrete = True
    support = (0.0, 1.0)
    allowed = "in [0, 1]"

    @property
    def logits(self) -> Tensor:
        """Logits after division by the temperature."""
        return self.prediction / self.temperature

    def nll(self, y: Tensor) -> Tensor:
        return ops.softplus(self.logits) - y * self.logits

    @classmethod
    def is_possible(cls, y: Tensor, shape: Shape) -> Any:
        return (y >= 0) & (y <= 1)

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        return -ops.softplus(ops.where(upper, -self.logits, self.logits))

    def quantile(self, p: Tensor) -> Tensor:
        return ops.cast(p > ops.sigmoid(-self.logits), self.prediction.dtype)

    def mean(self) -> Tensor:
        """Probability of class 1, in the logits' shape."""
        return ops.sigmoid(self.logits)

    def variance(self) -> Tensor:
        return self.mean() * ops.sigmoid(-self.logits)

    @method()
    def class_probabilities(self) -> Tensor:
        """Probabilities of classes 0 and 1, `(batch, ..., units, 2)`."""
        yes = self.mean()
        return ops.stack([1 - yes, yes], axis=-1)

    def information(self) -> Tensor:
        return self.variance() / ops.square(self.temperature)

    def _as_tfp(self, tfp: Any) -> Any:
        return tfp.Bernoulli(logits=self.logits)


class Softmax(Likelihood):
    """Categorical distribution over the last axis of the logits.

        nll(y) = log sum_c exp(logits_c / temperature) - logits_y / temperature

    At `temperature = 1` it is the cross-entropy. A high temperature means high
    uncertainty; the literature also uses its inverse, tau.

    Args:
        prediction: logits, `(batch, ..., classes)`.
        temperature: `> 0`; its last axis is 1. Defaults to 1.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("temperature", ShiftedSoftplus(0.2), neutral=True, rate=0.5),
    )
    event_rank = 1

    @property
    def logits(self) -> Tensor:
        """Logits after division by the temperature."""
        return self.prediction / self.temperature

    def bounded_logits(self) -> Tensor:
        """Logits of the same probabilities, finite at any temperature."""
        largest = ops.max(self.prediction, axis=-1, keepdims=True)
        distance = self.prediction - ops.stop_gradient(largest)
        temperature = clip(self.temperature, 1.2e-38, math.inf)
        return clip(distance / temperature, -1e30, math.inf)

    def nll(self, y: Tensor) -> Tensor:
        """Negative log-likelihood of class numbers, `(batch, ...)`.

        One-hot or soft labels have the logits' shape. The NLL of a number that
        is not a class is NaN.
        """
        logits = self.bounded_logits()
        if len(y.shape) == len(logits.shape):
            return ops.categorical_crossentropy(
                ops.cast(y, logits.dtype), logits, from_logits=True
            )
        possible = self.is_possible(y, logits.shape)
        index = ops.cast(ops.where(possible, y, 0), "int32")
        nll = ops.sparse_categorical_crossentropy(
            index, logits, from_logits=True
        )
        return self._or_nan(nll, possible)

    @classmethod
    def target_shapes(cls, shape: Shape) -> list[Shape]:
        """Class numbers `(batch, ...)`, or labels in the logits' shape."""
        if len(shape) < 2 or shape[-1] == 1:
            raise ValueError(
                "Softmax needs logits (batch, ..., classes) with at least two "
                f"classes. For one logit, use Bernoulli. Received: {shape}"
            )
        return [shape[:-1], shape]

    @classmethod
    def is_possible(cls, y: Tensor, shape: Shape) -> Any:
        if len(y.shape) == len(shape) and y.shape[-1] == shape[-1]:
            return super().is_possible(y, shape)
        return (y >= 0) & (y < shape[-1]) & (y % 1 == 0)

    @classmethod
    def check_targets(cls, y: Tensor, prediction_shape: Shape) -> None:
        y, classes = cls._as_numbers(y), int(prediction_shape[-1] or 0)
        if classes == 1:
            raise ValueError(
                f"{cls.__name__} needs one logit per class. For binary targets "
                "with one logit, use Bernoulli. "
                f"Received: predictions of shape {tuple(prediction_shape)}"
            )
        if y.shape[-1:] == (classes,) and y.ndim == len(prediction_shape):
            off = ~(np.abs(y.sum(axis=-1, dtype="float64") - 1) <= 1e-3)
            bad = ~(y >= 0) | off[..., None]
            allowed = "rows of probabilities >= 0 that sum to 1"
        else:
            bad = ~cls.is_possible(y, prediction_shape)
            allowed = f"whole numbers from 0 to {classes - 1}"
        cls._refuse_targets(y, bad, allowed)

    def mean(self) -> Tensor:
        """Class probabilities, in the logits' shape."""
        return ops.softmax(self.bounded_logits())

    def information(self) -> Tensor:
        """Diagonal of `(diag(p) - p p^T) / temperature^2`, `p = mean()`."""
        return self.variance() / ops.square(self.temperature)

    def variance(self) -> Tensor:
        p = self.mean()
        return p * (1 - p)

    @method()
    def class_probabilities(self) -> Tensor:
        """Probabilities with the classes on the last axis."""
        return self.mean()

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        """Draws class numbers: `(batch, ...)`, or `(count, batch, ...)`."""
        shape, dtype = self._sample_shape(count), self.prediction.dtype
        uniform = keras.random.uniform(shape, 1e-20, dtype=dtype, seed=seed)
        gumbel = -ops.log(-ops.log(uniform))
        return ops.argmax(self.bounded_logits() + gumbel, axis=-1)

    def _as_tfp(self, tfp: Any) -> Any:
        return tfp.Categorical(logits=self.logits)


class Ordinal(Parametrized):
    """Ordered classes 0, 1, ..., such as grades or star ratings.

        P(y <= k) = 1 / (1 + exp(prediction - cut_k))

    The prediction is a latent score, which increasing cut points divide into
    classes (proportional odds, McCullagh 1980). The cut points are centered at
    0, because the bias of the score already shifts them.

    Args:
        classes: number of classes, from 3 to 1000. For two, use `Bernoulli`.

    The resulting class takes

        prediction: scores, `(batch, ..., units)`. Targets are class numbers
            of the same shape.
        gaps: distances between the cut points, `> 0`: `classes - 2` values,
            shared by all units or one set per unit. Defaults to 1.
    """

    example = "4"
    classes: int
    is_discrete = True

    @classmethod
    def define(cls, classes: Any) -> dict[str, Any]:
        classes = int(classes) if classes == int(classes) else classes
        check_size("classes", classes, 3, ". For two use Bernoulli")
        gaps = Parameter("gaps", ShiftedSoftplus(0.01), size=classes - 2)
        return {
            "classes": classes,
            "parameters": (gaps,),
            "support": (0, classes - 1),
            "allowed": f"whole numbers from 0 to {classes - 1}",
        }

    def _gaps(self) -> Tensor:
        """Gaps between cut points, `(batch, ..., 1 or units, classes - 2)`."""
        count = self.classes - 2
        shape = ops.shape(self.gaps)[:-1]
        units = self.gaps.shape[-1] // count
        return ops.reshape(self.gaps, (*shape, units, count))

    @method()
    def cut_points(self) -> Tensor:
        """Increasing cut points, `(batch, ..., 1 or units, classes - 1)`."""
        gaps = ops.unstack(self._gaps(), axis=-1)
        cuts = [*itertools.accumulate(gaps, initial=ops.zeros_like(gaps[0]))]
        return ops.stack([cut - 0.5 * cuts[-1] for cut in cuts], axis=-1)

    def _logits(self) -> Tensor:
        """Log-odds of `y <= k` for all but the last class."""
        return self.cut_points() - ops.expand_dims(self.prediction, axis=-1)

    def _nll_of_classes(self) -> Tensor:
        """NLL of every class, `(batch, ..., units, classes)`."""
        logits, gaps = self._logits(), self._gaps()
        zero = ops.zeros_like(logits[..., :1])
        # P = sigmoid(a) sigmoid(-b) (1 - exp(b - a)) between two cut points.
        width = log_one_minus_exp(clip(gaps, 1e-30, math.inf))
        width = ops.zeros_like(logits[..., 1:]) - width
        below, above = ops.softplus(-logits), ops.softplus(logits)
        parts = [below, zero], [zero, above], [zero, width, zero]
        return sum(ops.concatenate(part, axis=-1) for part in parts)

    def _pick(self, values: Tensor, classes: Tensor) -> Tensor:
        """Selects entries of the last axis of `values` by class number."""
        numbers = ops.arange(values.shape[-1], dtype=values.dtype)
        chosen = ops.expand_dims(classes, axis=-1) == numbers
        return ops.sum(ops.where(chosen, values, 0.0), axis=-1)

    def nll(self, y: Tensor) -> Tensor:
        return self._pick(self._nll_of_classes(), y)

    @method()
    def class_probabilities(self) -> Tensor:
        """Probabilities, `(batch, ..., units, classes)`."""
        return ops.exp(-self._nll_of_classes())

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        y, logits = floor(y), self._logits()
        above = self._pick(-ops.softplus(logits), y)
        return ops.where(upper, above, self._pick(-ops.softplus(-logits), y))

    def quantile(self, p: Tensor) -> Tensor:
        """The smallest class k with `P(y <= k) >= p`."""
        p = p[..., None] if len(p.shape) else p
        below = ops.sigmoid(self._logits()) < p
        return ops.sum(ops.cast(below, self.prediction.dtype), axis=-1)

    def mean(self) -> Tensor:
        """Expected class number."""
        return ops.sum(ops.sigmoid(-self._logits()), axis=-1)

    def variance(self) -> Tensor:
        numbers = ops.arange(self.classes, dtype=self.prediction.dtype)
        apart = numbers - ops.expand_dims(self.mean(), axis=-1)
        return ops.sum(self.class_probabilities() * ops.square(apart), axis=-1)
