"""Where a model keeps what its losses learn."""

import types

import keras

from keras_likelihood.models.latest_value import LatestValue
from keras_likelihood.registration import serializable


@serializable
class LossParameters(keras.Layer):
    """Holds the learned parameters of the losses a model is compiled with.

    Keras tracks a layer for good once it is an attribute of a model, but
    losses change with every `compile`. This layer is the attribute that
    stays; its contents are replaced.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        # A plain namespace, which Keras' attribute tracking leaves alone.
        self._current = types.SimpleNamespace(
            parameters={}, logs={}, data_parameters={}
        )
        self.built = True

    def replace(self, parameters: dict, data_parameters: dict | None = None):
        """Forgets what was held and holds these instead.

        Args:
            parameters: `GlobalParameter`s by name, trained by the optimizer.
            data_parameters: `DataParameter`s by name, which train themselves.
        """
        self._current.parameters = dict(parameters)
        self._current.data_parameters = dict(data_parameters or {})
        # XLA cannot leave the device in the middle of a step; JAX can.
        self.supports_jit = keras.backend.backend() != "tensorflow" or not any(
            p.store for p in self._current.data_parameters.values()
        )
        self._current.logs = {name: LatestValue(name) for name in parameters}

    def log(self):
        """Notes the current values for the progress bar and the history."""
        for name, parameter in self._current.parameters.items():
            self._current.logs[name].update_state(parameter.value())

    @property
    def variables(self):
        held = (
            *self._current.parameters.values(),
            *self._current.data_parameters.values(),
        )
        return [v for p in held for v in p.variables]

    @property
    def learned(self) -> dict:
        """The `GlobalParameter`s, by name."""
        return dict(self._current.parameters)

    @property
    def data_parameters(self) -> dict:
        """The `DataParameter`s, by name."""
        return dict(self._current.data_parameters)

    @property
    def weights(self):
        return self.variables

    @property
    def metrics(self):
        return list(self._current.logs.values())

    def save_own_variables(self, store):
        for i, variable in enumerate(self.variables):
            store[str(i)] = variable

    def load_own_variables(self, store):
        if len(store.keys()) != len(self.variables):
            raise ValueError(
                "The saved loss has another number of learned parameters. "
                f"Expected: {len(self.variables)}. "
                f"Received: {len(store.keys())}"
            )
        for i, variable in enumerate(self.variables):
            variable.assign(store[str(i)])
