"""Losses of Keras with a learned temperature."""

import types
from typing import Any

import keras
from keras import ops

from keras_likelihood.backend.private import loss_of_function
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Tensor
from keras_likelihood.layers.parameter_layers import GlobalParameter
from keras_likelihood.likelihoods import Softmax


@serializable
class Weighted(keras.losses.Loss):
    """Makes a loss of Keras a likelihood, with a learned temperature.

        loss / temperature + log(temperature)

    Several tasks then weight themselves (Kendall, Gal and Cipolla 2018): at the
    optimum the temperature is the mean of the loss. The loss must be positive.
    `LikelihoodModel` trains and logs the temperature.

    ```python
    loss = {"mask": kl.losses.Weighted("dice"), "depth": kl.losses.NormalLoss()}
    model.compile("adam", loss=loss)
    ```

    Args:
        loss: a loss of Keras, its name, or a function of `(y_true, y_pred)`.
        reduction, name, dtype: as in `keras.losses.Loss`.
    """

    def __init__(
        self,
        loss: Any,
        *,
        reduction: str | None = "sum_over_batch_size",
        name: str = "weighted",
        dtype: Any = None,
    ) -> None:
        super().__init__(name, reduction, dtype)
        if isinstance(loss, dict):
            loss = keras.saving.deserialize_keras_object(loss)
        self.loss, self._called = loss, as_keras_loss(loss)
        options = {"name": "temperature", "dtype": keras.config.floatx()}
        parameter = GlobalParameter(constraint="exp", **options)
        # Keras would save a layer a second time.
        self._learned = types.SimpleNamespace(
            temperature=parameter.bind(Softmax, "temperature"), is_trained=False
        )

    def learned_beside(self, count: int = 0) -> dict[str, GlobalParameter]:
        """The temperature, by name."""
        return {"temperature": self._learned.temperature}

    def adopt(self, trainer: str = "loop") -> list[Any]:
        """Declares that the caller trains the temperature; returns it."""
        self._learned.is_trained = True
        return list(self._learned.temperature.variables)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        if not self._learned.is_trained:
            raise ValueError(
                f"{self.name}: this model does not train its loss. Use "
                "`LikelihoodModel`, or call `loss.adopt()` in your own "
                "training loop. Received: a temperature that nothing learns"
            )
        values = self._called.call(y_true, y_pred)
        temperature = ops.cast(self._learned.temperature.value(), values.dtype)
        return values / temperature + ops.log(temperature)

    def get_config(self) -> dict[str, Any]:
        loss = self.loss
        if not isinstance(loss, str):
            loss = keras.saving.serialize_keras_object(loss)
        return {**super().get_config(), "loss": loss, "dtype": self.dtype}


def as_keras_loss(loss: Any) -> keras.losses.Loss:
    """A loss from a loss, a name or a function."""
    loss = keras.losses.get(loss)
    is_loss = isinstance(loss, keras.losses.Loss)
    return loss if is_loss else loss_of_function(loss)
