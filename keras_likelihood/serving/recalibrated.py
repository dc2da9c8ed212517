"""Recalibrated regressors as Keras models."""

from typing import Any

import keras

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.output import distribution_of
from keras_likelihood.serving.layers import LikelihoodPrediction


@serializable
class RecalibratedRegressor(keras.Model):
    """A Keras model whose outputs are the parameters of a distribution.

    The recalibrators of `kl.recalibration.regression` create it. It is saved
    and loaded like any Keras model.

    ```python
    model = keras.saving.load_model("calibrated.keras")
    lower, upper = model.interval(x, 0.9)
    ```
    """

    def predict_distribution(self, x: Any, **kwargs: Any) -> Any:
        """The predicted distribution for inputs `x`, as for `predict`."""
        output = self.predict(x, **{"verbose": 0, **kwargs})
        names = [v for v in self.layers if isinstance(v, LikelihoodPrediction)]
        likelihood = likelihoods.get(names[-1].likelihood)
        return distribution_of(likelihood, output).as_numpy()

    def interval(
        self, x: Any, coverage: float = 0.9, **kwargs: Any
    ) -> tuple[Array, Array]:
        """Intervals that contain new targets with the given probability.

        The bounds `(lower, upper)` are NumPy arrays of the prediction's shape.

        Args:
            x: inputs `(n, ...)`, as for `predict`.
            coverage: in (0, 1). Defaults to 0.9.
            **kwargs: passed to `predict`. A `ConformalRegressor` that was
                calibrated by groups also needs `groups`, the group labels
                `(n,)`.
        """
        return self.predict_distribution(x, **kwargs).interval(coverage)
