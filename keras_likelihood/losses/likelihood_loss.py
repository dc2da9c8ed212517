"""The loss that is the negative log-likelihood of any likelihood."""

import numbers
import re
import warnings

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.data_parameters.data_parameter import DataParameter
from keras_likelihood.layers.global_parameter import GlobalParameter
from keras_likelihood.registration import serializable


@serializable
class LikelihoodLoss(keras.losses.Loss):
    """Mean negative log-likelihood of the targets.

    Each parameter of the likelihood is one of

    - a number: fixed;
    - `"global"` or a `GlobalParameter`: learned by the loss;
    - a `DataParameter`: learned with a value per training example;
    - left out: taken from the model's output `(prediction, parameter, ...)`
      if that has parameters, else learned by the loss.

    What a loss learns has to be trained by someone: `LikelihoodModel` does,
    and so may a training loop of your own over `trainable_variables`. In a
    stock Keras model parameters left out stay at their initial values, with
    one warning, and `"global"` is an error.

    Like Keras' regression losses it averages over the last axis, then reduces
    over the batch. The log-likelihood is complete: no constant is dropped.

    Args:
        likelihood: a `Likelihood` or its name.
        dimension: of the parameters the loss learns: `"scalar"` (default),
            `"channel"` or `"element"`.
        reduction: as in `keras.losses.Loss`.
        name: name of the loss.
        dtype: of the computation. Defaults to `keras.config.floatx()`.
        **parameters: the likelihood's parameters, by name.
    """

    likelihood = None
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
        for given in parameters:
            self.likelihood.parameter(given)
        self._given = {
            p.name: self._standardize(p, parameters.get(p.name))
            for p in self.likelihood.parameters
        }
        self._learned = {
            name: self._make_global(name, given)
            for name, given in self._given.items()
            if given is None or _is_global(given)
        }
        self._data = {
            name: given.bind(self.likelihood, name)
            for name, given in self._given.items()
            if isinstance(given, DataParameter)
        }
        self._has_trainer = False

    def _standardize(self, parameter, given):
        if isinstance(given, dict):
            given = keras.saving.deserialize_keras_object(given)
        if given is None or _is_global(given):
            return given
        if isinstance(given, DataParameter):
            return given
        if isinstance(given, numbers.Real):
            return parameter.check(given)
        raise ValueError(
            f"`{parameter.name}` must be a number, 'global', a "
            "GlobalParameter, a DataParameter or None. "
            f"Received: {given!r}"
        )

    def _make_global(self, name, given):
        if not isinstance(given, GlobalParameter):
            given = GlobalParameter(
                dimension=self.dimension,
                name=name,
                dtype=keras.config.floatx(),
            )
        return given.bind(self.likelihood, name)

    @property
    def trainable_variables(self) -> list:
        """Variables behind the learned parameters.

        Whoever asks for them is taken to train them.
        """
        self._has_trainer = True
        return [v for p in self._learned.values() for v in p.variables]

    @property
    def data_parameters(self) -> dict:
        """The `DataParameter`s among the parameters, by name."""
        return dict(self._data)

    def adopt(self, leaves: int = 1) -> dict:
        """Hands the parameters to learn to a model that will train them.

        Args:
            leaves: number of tensors in the model's output; those beyond the
                first stand in for parameters left out.

        Returns:
            The `GlobalParameter`s in use, by name.
        """
        self._has_trainer = True
        return self._learned_beside(leaves)

    def _learned_beside(self, leaves):
        from_output = self._names_from_output(leaves)
        return {k: v for k, v in self._learned.items() if k not in from_output}

    def build(self, prediction_shape):
        """Makes the learned parameters for predictions of this shape."""
        for parameter in self._learned.values():
            if not parameter.built:
                parameter.build(prediction_shape)
        for parameter in self._data.values():
            parameter.build(prediction_shape)

    def parameter_values(self) -> dict:
        """Current values of the fixed and the learned parameters, as NumPy.

        Those of a `DataParameter` are its own `values()`.
        """
        values = {}
        for name, given in self._given.items():
            if name in self._data:
                continue
            if name in self._learned:
                if self._learned[name].built:
                    value = self._learned[name].value()
                    value = ops.convert_to_numpy(value)
                    values[name] = value if value.ndim else float(value)
            else:
                values[name] = given
        return values

    def distribution(self, y_pred):
        """The likelihood object around `y_pred`.

        Args:
            y_pred: a prediction, or `(prediction, parameter, ...)`.
        """
        prediction, *rest = _leaves(y_pred)
        prediction = ops.convert_to_tensor(prediction, dtype=self.dtype)
        from_output = self._names_from_output(1 + len(rest))
        values = dict(zip(from_output, rest, strict=True))
        for name, given in self._given.items():
            if name in values:
                continue
            if name in self._learned:
                given = self._learned_value(name, prediction)
            elif name in self._data:
                given = self._data[name].value()
            values[name] = given
        return self.likelihood(prediction, **values)

    def _learned_value(self, name, prediction):
        parameter = self._learned[name]
        if not parameter.built:
            parameter.build(tuple(prediction.shape))
        value = ops.cast(parameter.value(), self.dtype)
        if len(value.shape) == 0:
            return value
        return ops.expand_dims(value, axis=0)

    def _names_from_output(self, leaves):
        free = [name for name, given in self._given.items() if given is None]
        if leaves == 1:
            return []
        if leaves - 1 == len(free):
            return free
        raise ValueError(
            f"{self.name}: the output must be a prediction, alone or with the "
            f"{len(free)} parameter(s) left to it, {free}; fix or learn the "
            "others by naming them in the loss. "
            f"Received: a prediction and {leaves - 1} parameter(s)"
        )

    def __call__(self, y_true, y_pred, sample_weight=None):
        prediction, *parameters = _leaves(y_pred)
        self._refuse_silent_parameters(1 + len(parameters))
        if not parameters:
            return super().__call__(y_true, prediction, sample_weight)
        beside = _BesideParameters(self, parameters)
        return beside(y_true, prediction, sample_weight)

    def call(self, y_true, y_pred):
        distribution = self.distribution(y_pred)
        y_true = _match_rank(y_true, distribution.prediction)
        values = self.elementwise(distribution, y_true)
        if self.likelihood.event_rank:
            return values
        return ops.mean(values, axis=-1)

    def elementwise(self, distribution, y_true):
        """Loss of every outcome; a subclass may weight it."""
        return distribution.nll(y_true)

    def _refuse_silent_parameters(self, leaves):
        if self._has_trainer:
            return
        unused = self._learned_beside(leaves)
        asked = [n for n in unused if self._given[n] is not None]
        asked += self._data
        if asked:
            raise ValueError(
                f"{self.name}: {asked} are to be learned, but this model does "
                "not train its loss. Use `keras_likelihood.LikelihoodModel` "
                "(or `LikelihoodModel.from_model(model)`), or fix them by "
                f"numbers. Received: {_describe(self._given, asked)}"
            )
        if unused:
            start = {n: p.start for n, p in unused.items()}
            warnings.warn(
                f"{self.name}: this model does not train its loss, so "
                f"{_describe(start, unused)} stay at their initial values. "
                "Use `keras_likelihood.LikelihoodModel` to learn them or give "
                "them as numbers to silence this.",
                stacklevel=3,
            )
        self._has_trainer = True

    def get_config(self):
        given = {
            name: keras.saving.serialize_keras_object(value)
            if isinstance(value, keras.Layer | DataParameter)
            else value
            for name, value in self._given.items()
        }
        config = {
            **super().get_config(),
            "dimension": self.dimension,
            "dtype": self.dtype,
            **given,
        }
        if type(self).likelihood is None:
            config["likelihood"] = self.likelihood.name()
        return config


class _BesideParameters(keras.losses.Loss):
    """The loss of a lone prediction, with the parameters set aside.

    Keras looks for a mask on the tensor it is given, not inside a tuple.
    """

    def __init__(self, loss, parameters):
        super().__init__(loss.name, loss.reduction, loss.dtype)
        self.loss = loss
        self.parameters = parameters

    def call(self, y_true, prediction):
        return self.loss.call(y_true, (prediction, *self.parameters))


def _match_rank(y_true, prediction):
    """Adds the unit axis that targets `(batch, ...)` may leave out."""
    if (
        len(y_true.shape) == len(prediction.shape) - 1
        and prediction.shape[-1] == 1
    ):
        return ops.expand_dims(y_true, axis=-1)
    return y_true


def _is_global(given):
    return isinstance(given, GlobalParameter) or (
        isinstance(given, str) and given == "global"
    )


def _snake_case(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _describe(values, names):
    return ", ".join(f"{n}={values[n]}" for n in names)


def _leaves(y_pred):
    return list(y_pred) if isinstance(y_pred, list | tuple) else [y_pred]
