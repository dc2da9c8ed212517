"""The parameters of a likelihood as they are given to a loss."""

import numbers

import keras
from keras import ops

from keras_likelihood.data_parameters.data_parameter import DataParameter
from keras_likelihood.layers.global_parameter import GlobalParameter
from keras_likelihood.likelihoods.output import (
    distribution_of,
    names_in_output,
    split_output,
)


class GivenParameters:
    """What the user of a loss said about each parameter of its likelihood.

    Args:
        likelihood: a `Likelihood` class.
        given: dict by name. A value is a number, `"global"`, a
            `GlobalParameter`, a `DataParameter`, or `None` for a parameter
            that the output holds or the loss learns.
        dimension: the dimension of the parameters that the loss learns.
    """

    def __init__(self, likelihood, given: dict, dimension: str):
        self.likelihood = likelihood
        for name in given:
            likelihood.parameter(name)
        self.given = {
            p.name: _standardize(p, given.get(p.name))
            for p in likelihood.parameters
        }
        self.learned = {
            name: _as_global(value, name, dimension).bind(likelihood, name)
            for name, value in self.given.items()
            if value is None or _is_global(value)
        }
        self.data = {
            name: value.bind(likelihood, name)
            for name, value in self.given.items()
            if isinstance(value, DataParameter)
        }

    def predicted(self, count: int) -> list[str]:
        """Names of the parameters in an output that holds `count` of them."""
        named = [name for name, v in self.given.items() if v is not None]
        return names_in_output(self.likelihood, named, count)

    def learned_beside(self, count: int) -> dict:
        """The `GlobalParameter`s that are used if `count` are predicted."""
        predicted = self.predicted(count)
        return {k: v for k, v in self.learned.items() if k not in predicted}

    def sources(self, count: int) -> dict[str, str]:
        """By name: `"fixed"`, `"global"`, `"data"` or `"predicted"`."""
        found = dict.fromkeys(self.given, "fixed")
        found |= dict.fromkeys(self.data, "data")
        found |= dict.fromkeys(self.learned, "global")
        return found | dict.fromkeys(self.predicted(count), "predicted")

    def build(self, prediction_shape, count: int):
        """Makes the learned parameters if `count` parameters are predicted."""
        for parameter in self.learned_beside(count).values():
            if not parameter.built:
                parameter.build(prediction_shape)
        for parameter in self.data.values():
            parameter.build(prediction_shape)

    def values(self) -> dict:
        """The fixed and the learned values, as numbers or NumPy arrays."""
        values = {}
        for name, given in self.given.items():
            if name in self.learned:
                if self.learned[name].built:
                    values[name] = self.learned[name].latest
            elif name not in self.data:
                values[name] = given
        return values

    def distribution(self, output, dtype, rows: dict):
        """The likelihood object around a model's output.

        Args:
            output: a prediction, or `(prediction, parameter, ...)`.
            dtype: the dtype of the computation.
            rows: values of the data parameters for these examples, by name.
        """
        known = {}
        for name, given in self.given.items():
            if name in rows:
                known[name] = rows[name]
            elif name in self.data:
                known[name] = self.data[name].fallback_value()
            elif name not in self.learned:
                known[name] = given
            elif given is not None:
                prediction = ops.convert_to_tensor(
                    split_output(output)[0], dtype=dtype
                )
                known[name] = self._learned_value(name, prediction)
        return distribution_of(
            self.likelihood,
            output,
            known=known,
            learned=self._learned_value,
            dtype=dtype,
        )

    def _learned_value(self, name, prediction):
        parameter = self.learned[name]
        if not parameter.built:
            parameter.build(tuple(prediction.shape))
        value = ops.cast(parameter.value(), prediction.dtype)
        return value if len(value.shape) == 0 else value[None]

    def get_config(self) -> dict:
        return {
            name: keras.saving.serialize_keras_object(value)
            if isinstance(value, keras.Layer | DataParameter)
            else value
            for name, value in self.given.items()
        }


def _standardize(parameter, given):
    if isinstance(given, dict):
        given = keras.saving.deserialize_keras_object(given)
    if given is None or _is_global(given) or isinstance(given, DataParameter):
        return given
    if isinstance(given, numbers.Real) or (
        parameter.size is not None and isinstance(given, list | tuple)
    ):
        return parameter.check(given)
    raise ValueError(
        f"`{parameter.name}` must be a number, 'global', a GlobalParameter, "
        f"a DataParameter or None. Received: {given!r}"
    )


def _as_global(given, name, dimension):
    if isinstance(given, GlobalParameter):
        return given
    return GlobalParameter(
        dimension=dimension, name=name, dtype=keras.config.floatx()
    )


def _is_global(given):
    return isinstance(given, GlobalParameter) or (
        isinstance(given, str) and given == "global"
    )
