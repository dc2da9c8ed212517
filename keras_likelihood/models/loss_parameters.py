"""Stores the learned parameters of the losses of a model."""

import types
import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.checks import check_argument


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
        self._own = types.SimpleNamespace(learned={}, rows={}, remembered={})
        self.built = True

    def replace(self, learned: dict[str, Any], rows: dict[str, Any]) -> None:
        """Replaces the parameters, given as dicts by name.

        The optimizer trains `learned`. The data parameters `rows` train
        themselves.
        """
        self._own.remembered.update(
            (_key(name, parameter), np.asarray(parameter.latest))
            for name, parameter in self._own.learned.items()
        )
        self._own.learned, self._own.rows = dict(learned), dict(rows)
        for name, parameter in learned.items():
            value = self._own.remembered.get(_key(name, parameter))
            if value is None or not parameter.is_fresh:
                continue
            before, now = np.shape(value), np.shape(parameter.latest)
            if before == now:
                parameter.latest = value
                continue
            warnings.warn(
                f"The {name} starts from its initial value, because its shape "
                f"changed from {before} to {now}.",
                stacklevel=4,
            )
        self._give_rows()

    def _give_rows(self) -> None:
        for name, parameter in self._own.rows.items():
            saved = self._own.remembered.get(f"data_{name}")
            if saved is not None:
                parameter.restore(saved)
                del self._own.remembered[f"data_{name}"]

    def forget(self) -> None:
        """Removes the stored values, so the next loss starts afresh."""
        self.replace({}, {})
        self._own.remembered.clear()

    @property
    def variables(self) -> Any:
        return _variables(self._own.learned) + _variables(self._own.rows)

    weights = variables

    def get_weights(self) -> list[Array]:
        """Values of the learned parameters, then the rows of each table."""
        tables = [parameter.table for parameter in self._own.rows.values()]
        learned = [v.numpy() for v in _variables(self._own.learned)]
        return learned + [np.array(table.view()) for table in tables]

    def set_weights(self, weights: list[Any]) -> None:
        """Sets the result of `get_weights`."""
        tables = [parameter.table for parameter in self._own.rows.values()]
        parts = [*_variables(self._own.learned), *tables]
        fits = len(weights) == len(parts)
        allowed = f"{len(parts)} arrays for the parameters of the losses"
        check_argument("weights", len(weights), fits, allowed)
        for part, value in zip(parts, weights, strict=True):
            part.assign(value)
        for parameter in self._own.rows.values():
            parameter.update_mean()

    def learned(self) -> dict[str, Any]:
        """The `GlobalParameter`s, by name."""
        return dict(self._own.learned)

    def describe(self) -> list[str]:
        """One line per parameter, for `summary`."""
        lines = []
        for name, parameter in self._own.learned.items():
            value = np.asarray(parameter.latest)
            text = f"{value:.4g}" if value.ndim == 0 else f"shape {value.shape}"
            lines.append(f"{name}: {text}, learned by the loss")
        return lines + [
            f"{name}: one for each of {parameter.num_examples} examples"
            for name, parameter in self._own.rows.items()
        ]

    def save_own_variables(self, store: Any) -> None:
        for name, parameter in self._own.learned.items():
            key = _key(name, parameter)
            store[key] = ops.convert_to_numpy(parameter.unconstrained)
            store[f"{key}.value"] = np.asarray(parameter.latest)
            if parameter.unit is not None:
                store[f"{key}.unit"] = ops.convert_to_numpy(parameter.unit)
        for name, parameter in self._own.rows.items():
            for key, value in parameter.saved().items():
                store[f"data_{name}.{key}"] = value

    def load_own_variables(self, store: Any) -> None:
        keys = list(store.keys())
        for key in keys:
            start, _, end = key.rpartition(".")
            if end == "value":
                self._own.remembered[start] = np.asarray(store[key])
            elif end in ("about", "rows"):
                rows = self._own.remembered.setdefault(start, {})
                rows[end] = store[key][()]
        for name, parameter in self._own.learned.items():
            if (key := _key(name, parameter)) in keys:
                parameter.unconstrained.assign(store[key])
            if (key := f"{key}.unit") in keys:
                parameter.unit.assign(store[key])
        self._give_rows()


def _variables(parameters: dict[str, Any]) -> list[Any]:
    # Two losses may share a parameter.
    own = {id(v): v for p in parameters.values() for v in p.variables}
    return list(own.values())


def _key(name: str, parameter: Any) -> str:
    return f"{name}@{parameter.likelihood.name()}"
