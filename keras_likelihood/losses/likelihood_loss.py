"""The loss that is the negative log-likelihood of any likelihood."""

import contextlib
import re
import types
import warnings
from typing import Any

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods.output import match_target, split_output
from keras_likelihood.losses.given_parameters import GivenParameters
from keras_likelihood.losses.outcome_weights import outcome_weights


@serializable
class LikelihoodLoss(keras.losses.Loss):
    """Mean negative log-likelihood of the targets.

    Each parameter of the likelihood is one of

    - a number: fixed;
    - `"global"` or a `GlobalParameter`: learned by the loss;
    - a `DataParameter`: learned with a value per training example;
    - left out: taken from the model's output `(prediction, parameter, ...)`
      if that has parameters, else learned by the loss.

    Something must train what the loss learns. `LikelihoodModel` does. In a
    training loop of your own, call `adopt()` once and then train
    `trainable_variables`. A stock Keras model does not train it: parameters
    that were left out keep their values, one warning says so, and `"global"`
    is an error.

    Like Keras' regression losses, this loss averages over the last axis and
    then reduces over the batch. The log-likelihood is complete: no constant is
    dropped.

    Args:
        likelihood: a `Likelihood` or its name.
        dimension: the dimension of the parameters the loss learns: `"scalar"`
            (default), `"channel"` or `"element"`.
        reduction: as in `keras.losses.Loss`.
        name: name of the loss.
        dtype: the dtype of the computation. Defaults to
            `keras.config.floatx()`.
        **parameters: the likelihood's parameters, by name.
    """

    likelihood: Any = None
    """Set by a subclass that stands for one likelihood."""

    def __init__(
        self,
        likelihood=None,
        *,
        dimension: str = "scalar",
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype=None,
        **parameters,
    ):
        super().__init__(
            name=name or _snake_case(type(self).__name__),
            reduction=reduction,
            dtype=dtype,
        )
        self.likelihood = likelihoods.get(type(self).likelihood or likelihood)
        self.dimension = dimension
        self._parameters = GivenParameters(
            self.likelihood, parameters, dimension
        )
        self._state = types.SimpleNamespace(
            adopted=False,
            training_models=0,
            was_trained=False,
            warned=False,
            batch=None,
        )

    @property
    def trainable_variables(self) -> list:
        """Variables behind the learned parameters that are built."""
        learned = self._parameters.learned.values()
        return [v for parameter in learned for v in parameter.variables]

    @property
    def data_parameters(self) -> dict:
        """The `DataParameter`s among the parameters, by name."""
        return dict(self._parameters.data)

    def adopt(self) -> list:
        """Says that the caller trains what this loss learns.

        Call it once in a training loop of your own. `LikelihoodModel` uses
        `trained_by_model` instead.

        Returns:
            `trainable_variables`.
        """
        self._state.adopted = True
        return self.trainable_variables

    @contextlib.contextmanager
    def trained_by_model(self):
        """A context in which a model calls this loss and trains it."""
        self._state.training_models += 1
        self._state.was_trained = True
        try:
            yield
        finally:
            self._state.training_models -= 1

    def sources(self, count: int = 0) -> dict[str, str]:
        """Where the value of each parameter comes from.

        Args:
            count: number of parameters in the model's output.

        Returns:
            By name: `"fixed"`, `"global"`, `"data"` or `"predicted"`.
        """
        return self._parameters.sources(count)

    def learned_beside(self, count: int = 0) -> dict:
        """The `GlobalParameter`s that are used if `count` are predicted."""
        return self._parameters.learned_beside(count)

    def build(self, prediction_shape, count: int = 0):
        """Makes the learned parameters for predictions of this shape.

        Args:
            prediction_shape: the shape, batch axis included.
            count: number of parameters in the model's output, which are not
                learned.
        """
        self._parameters.build(prediction_shape, count)

    def parameter_values(self) -> dict:
        """Current values of the fixed and the learned parameters, as NumPy.

        The values of a `DataParameter` are in its `values()`.
        """
        return self._parameters.values()

    def distribution(self, y_pred):
        """The likelihood object around `y_pred`.

        Args:
            y_pred: a prediction, or `(prediction, parameter, ...)`.
        """
        return self._parameters.distribution(y_pred, self.dtype)

    def __call__(self, y_true, y_pred, sample_weight=None):
        prediction, parameters = split_output(y_pred)
        self._refuse_untrained_parameters(len(parameters))
        self._state.batch = prediction, sample_weight
        try:
            if not parameters:
                return super().__call__(y_true, prediction, sample_weight)
            masked = _WithParameters(self, parameters)
            return masked(y_true, prediction, sample_weight)
        finally:
            self._state.batch = None

    def call(self, y_true, y_pred):
        distribution = self.distribution(y_pred)
        y_true = match_target(y_true, distribution.prediction)
        values = self.elementwise(distribution, y_true)
        if not self.likelihood.event_rank:
            return ops.mean(values, axis=-1)
        # A label of weight 0 may be any number, such as -1.
        counts = self._weights(values) > 0
        return ops.where(counts, values, ops.zeros_like(values))

    def elementwise(self, distribution, y_true):
        """Loss of every outcome; a subclass may weight it."""
        return distribution.nll(y_true)

    def weighted_mean(self, values):
        """Mean of `values` over the outcomes of the batch that count."""
        weights = self._weights(values)
        return ops.divide_no_nan(ops.sum(weights * values), ops.sum(weights))

    def _weights(self, values):
        if self._state.batch is None:
            return ops.ones_like(values)
        weights = outcome_weights(
            *self._state.batch, event_rank=self.likelihood.event_rank
        )
        weights = ops.cast(weights, values.dtype)
        return ops.broadcast_to(weights, ops.shape(values))

    def _refuse_untrained_parameters(self, count):
        state = self._state
        if state.adopted or state.training_models or state.warned:
            return
        given = self._parameters.given
        unused = self.learned_beside(count)
        asked = [n for n in unused if given[n] is not None]
        asked += self._parameters.data
        if asked and not state.was_trained:
            raise ValueError(
                f"{self.name}: {asked} should be learned, but this model does "
                "not train its loss. Use `keras_likelihood.LikelihoodModel` "
                "(or `LikelihoodModel.from_model(model)`), give numbers "
                "instead, or call `loss.adopt()` in a training loop of your "
                f"own. Received: {_describe(given, asked)}"
            )
        if unused:
            start = {n: p.start for n, p in unused.items()}
            kept = f"{_describe(start, unused)} stay at their initial values"
            if state.was_trained:
                kept = f"{list(unused)} stay as another model left them"
            warnings.warn(
                f"{self.name}: this model does not train its loss, so {kept}. "
                "Use `keras_likelihood.LikelihoodModel` to learn them, or give "
                "them as numbers to avoid this warning.",
                stacklevel=3,
            )
        state.warned = True

    def get_config(self):
        config = {
            **super().get_config(),
            "dimension": self.dimension,
            "dtype": self.dtype,
            **self._parameters.get_config(),
        }
        if type(self).likelihood is None:
            config["likelihood"] = self.likelihood.name()
        return config


class _WithParameters(keras.losses.Loss):
    """The loss of a prediction alone. It keeps the parameters separately.

    Keras looks for a mask on the tensor it is given, not inside a tuple.
    """

    def __init__(self, loss, parameters):
        super().__init__(loss.name, loss.reduction, loss.dtype)
        self.loss = loss
        self.parameters = parameters

    def call(self, y_true, prediction):
        return self.loss.call(y_true, (prediction, *self.parameters))


def _snake_case(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _describe(values, names):
    return ", ".join(f"{n}={values[n]}" for n in names)
