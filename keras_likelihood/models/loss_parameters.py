"""Stores the learned parameters of the losses of a model."""

import types
import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable


@serializable
class LossParameters(keras.Layer):
    """Contains the learned parameters of the losses of a compiled model.

    It also stores the values of earlier losses and of a file, because a model
    may be loaded before it is compiled. A new loss of the same likelihood takes
    these values if its parameters have the default initial value.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Keras does not track the attributes of a plain namespace.
        self._current = types.SimpleNamespace(
            parameters={}, data_parameters={}, remembered={}
        )
        self.built = True

    def replace(
        self, parameters: dict[str, Any], data_parameters: dict[str, Any]
    ) -> None:
        """Replaces the parameters, given as dicts by name.

        The optimizer trains `parameters`. Data parameters train themselves.
        """
        self._current.remembered |= {
            _key(name, parameter): np.asarray(parameter.latest)
            for name, parameter in self._current.parameters.items()
        }
        self._current.parameters = dict(parameters)
        self._current.data_parameters = dict(data_parameters)
        for name, parameter in parameters.items():
            self._take_over(name, parameter)
        self._give_rows()

    def _give_rows(self) -> None:
        for name, parameter in self._current.data_parameters.items():
            rows = self._current.remembered.get(f"data_{name}")
            if rows is not None:
                parameter.restore(rows)
                del self._current.remembered[f"data_{name}"]

    def _take_over(self, name: str, parameter: Any) -> None:
        value = self._current.remembered.get(_key(name, parameter))
        if value is None or not parameter.is_fresh:
            return
        if np.shape(value) == np.shape(parameter.latest):
            parameter.latest = value
            return
        warnings.warn(
            f"The {name} starts from its initial value, because its shape "
            f"changed from {np.shape(value)} to {np.shape(parameter.latest)}.",
            stacklevel=5,
        )

    def forget(self) -> None:
        """Removes the stored values, so the next loss starts afresh."""
        self.replace({}, {})
        self._current.remembered = {}

    @property
    def variables(self) -> Any:
        now = self._current
        held = (*now.parameters.values(), *now.data_parameters.values())
        # Two losses may share a parameter.
        return list({id(v): v for p in held for v in p.variables}.values())

    weights = variables

    def learned(self) -> dict[str, Any]:
        """The `GlobalParameter`s, by name."""
        return dict(self._current.parameters)

    def describe(self) -> list[str]:
        """One line per parameter, for `summary`."""
        lines = []
        for name, parameter in self._current.parameters.items():
            value = np.asarray(parameter.latest)
            text = f"{value:.4g}" if value.ndim == 0 else f"shape {value.shape}"
            lines.append(f"{name}: {text}, learned by the loss")
        return lines + [
            f"{name}: one for each of {parameter.num_examples} examples"
            for name, parameter in self._current.data_parameters.items()
        ]

    def save_own_variables(self, store: Any) -> None:
        for name, parameter in self._current.parameters.items():
            key = _key(name, parameter)
            store[key] = ops.convert_to_numpy(parameter.unconstrained)
            store[f"{key}.value"] = np.asarray(parameter.latest)
        for name, parameter in self._current.data_parameters.items():
            for key, value in parameter.saved().items():
                store[f"data_{name}.{key}"] = value

    def load_own_variables(self, store: Any) -> None:
        keys = list(store.keys())
        self._remember(store, keys)
        for name, parameter in self._current.parameters.items():
            key, variable = _key(name, parameter), parameter.unconstrained
            if key not in keys:
                continue
            if tuple(store[key].shape) != tuple(variable.shape):
                raise ValueError(
                    f"The saved {name} must have the shape "
                    f"{tuple(variable.shape)}. "
                    f"Received: {tuple(store[key].shape)}"
                )
            variable.assign(store[key])
        try:
            self._give_rows()
        except ValueError:
            for name in self._current.data_parameters:
                self._current.remembered.pop(f"data_{name}", None)
            raise

    def _remember(self, store: Any, keys: Any) -> None:
        remembered = self._current.remembered
        for key in keys:
            start, _, end = key.rpartition(".")
            if end == "value":
                remembered[start] = np.asarray(store[key])
            elif end.isdigit() or end == "about":
                remembered.setdefault(start, {})[end] = store[key][()]


def _key(name: str, parameter: Any) -> Any:
    return f"{name}@{parameter.likelihood.name()}"
