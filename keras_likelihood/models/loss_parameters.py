"""Stores the learned parameters of the losses of a model."""

import types
import warnings

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.data_parameters.refusals import Counts


@serializable
class LossParameters(keras.Layer):
    """Contains the learned parameters of the losses of a compiled model.

    It also stores the values of earlier losses and of a file, because a model
    may be loaded before it is compiled. A new loss of the same likelihood takes
    these values if its parameters have the default initial value.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        # Keras does not track the attributes of a plain namespace.
        self._current = types.SimpleNamespace(
            parameters={}, data_parameters={}, remembered={}
        )
        self.built = True

    def replace(self, parameters: dict, data_parameters: dict):
        """Replaces the parameters, given as dicts by name.

        The optimizer trains `parameters`. Data parameters train themselves.
        """
        self._current.remembered |= {
            _key(name, parameter): np.asarray(parameter.latest)
            for name, parameter in self._current.parameters.items()
        }
        self._current.parameters = dict(parameters)
        self._current.data_parameters = dict(data_parameters)
        numbered = self._current.remembered.get(_NUMBERED)
        if numbered is not None and self.variables:
            del self._current.remembered[_NUMBERED]
            _assign_all(self.variables, numbered, "loss")
        for name, parameter in parameters.items():
            self._take_over(name, parameter)
        self._give_rows()

    def _give_rows(self):
        for name, parameter in self._current.data_parameters.items():
            state = self._current.remembered.pop(f"data_{name}", None)
            if state is not None:
                _assign_all(parameter.variables, state, name)

    def _take_over(self, name, parameter):
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

    def forget(self):
        """Removes the stored values, so the next loss starts afresh."""
        self.replace({}, {})
        self._current.remembered = {}

    @property
    def variables(self):
        now = self._current
        held = (*now.parameters.values(), *now.data_parameters.values())
        # Two losses may share a parameter.
        return list({id(v): v for p in held for v in p.variables}.values())

    weights = variables

    def learned(self) -> dict:
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

    def save_own_variables(self, store):
        for name, parameter in self._current.parameters.items():
            key = _key(name, parameter)
            store[key] = ops.convert_to_numpy(parameter.unconstrained)
            store[f"{key}.value"] = np.asarray(parameter.latest)
        for name, parameter in self._current.data_parameters.items():
            for i, variable in enumerate(parameter.variables):
                # The rows of a file need not fit in memory.
                value = getattr(variable, "rows", variable.numpy)()
                store[f"data_{name}.{i}"] = value

    def load_own_variables(self, store):
        keys = list(store.keys())
        if keys and all(key.isdigit() for key in keys):
            found = [store[str(i)][()] for i in range(len(keys))]
            if self.variables:
                _assign_all(self.variables, found, "loss")
            else:
                self._current.remembered[_NUMBERED] = found
            return
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
        self._give_rows()

    def _remember(self, store, keys):
        remembered = self._current.remembered
        for key in keys:
            start, _, end = key.rpartition(".")
            if end == "value":
                remembered[start] = np.asarray(store[key])
            elif end.isdigit():
                remembered.setdefault(start, {})[int(end)] = store[key][()]
        for key, state in list(remembered.items()):
            if isinstance(state, dict):
                remembered[key] = [state[i] for i in sorted(state)]


_NUMBERED = "numbered"
"""Key of the variables in a file of version 0.1, which have no names."""


def _key(name, parameter):
    return f"{name}@{parameter.likelihood.name()}"


def _assign_all(variables, values, name):
    shapes = [tuple(getattr(v, "saved_shape", v.shape)) for v in variables]
    received = [np.shape(v) for v in values]
    fits = [a == b for a, b in zip(shapes, received, strict=False)]
    # Version 0.2 stored the rows of a table on disk in a separate file.
    needed = slice(1 if received and received[0] == () else 0, None)
    if len(shapes) != len(received) or not all(
        fit or isinstance(variable, Counts)
        for fit, variable in zip(fits[needed], variables[needed], strict=True)
    ):
        raise ValueError(
            f"The saved {name} belongs to another model or to another number "
            "of examples. If there are new examples, load it with the old "
            "number first and then call `append`. Expected: variables of "
            f"shapes {shapes}. Received: {received}"
        )
    for fit, variable, value in zip(fits, variables, values, strict=True):
        if fit:
            variable.assign(value)
