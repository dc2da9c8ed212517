"""Keras models with calibrated prediction intervals and sets."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.conformal import prediction as conformal
from keras_likelihood.conformal.scores import scores_layer
from keras_likelihood.serving.layers import RecalibratedRegressor


@serializable
class ConformalInterval(keras.Layer):
    """Calibrated intervals up to a bound of the scores."""

    def __init__(self, bound: Any, settings: dict[str, Any], **kwargs: Any):
        super().__init__(**kwargs)
        self.bound, self.settings = np.asarray(bound), dict(settings)

    def call(self, inputs: Tensor) -> dict[str, Tensor]:
        found = conformal.predicted(inputs, self.settings)
        lower, upper = conformal.interval_within(found, self.bound, ops)
        return {"prediction": found.prediction, "lower": lower, "upper": upper}


@serializable
class ConformalClassifier(keras.Model):
    """A Keras model with calibrated prediction sets.

    `kl.conformal.ConformalSets` creates it. Its outputs are probabilities.

    ```python
    model = keras.saving.load_model("conformal.keras")
    sets = model.predict_set(x, 0.9)  # booleans (n, classes)
    ```
    """

    def predict_set(
        self,
        x: Any,
        coverage: float = 0.9,
        *,
        groups: Any = None,
        **kwargs: Any,
    ) -> Array:
        """Sets that contain the true class with the given probability.

        They are booleans `(n, ..., classes)`, with two classes for binary
        targets.

        Args:
            x: inputs `(n, ...)`, as for `predict`.
            coverage: in (0, 1). Defaults to 0.9.
            groups: group labels `(n,)`, if the model was calibrated by groups.
            **kwargs: passed to `predict`.
        """
        layer = scores_layer(self)
        probabilities = self.predict(x, **{"verbose": 0, **kwargs})
        return conformal.prediction_sets(
            probabilities, layer.scores, layer.settings, coverage, groups
        )

    def at_coverage(self, coverage: float = 0.9) -> keras.Model:
        """A Keras model with the outputs `probabilities` and `set`.

        Sets are booleans `(n, ..., classes)`. The calibration is part of the
        graph and is exported with it.
        """
        scores, settings = (
            scores_layer(self).scores,
            scores_layer(self).settings,
        )
        p = conformal.both_answers(self.output)
        bound = conformal.set_bound(scores, settings, coverage, p.shape)
        sets = conformal.sets_within(p, bound, settings)
        outputs = {"probabilities": self.output, "set": sets}
        return keras.Model(self.input, outputs)


@serializable
class ConformalRegressor(RecalibratedRegressor):
    """A Keras model with calibrated intervals.

    `kl.conformal.ConformalIntervals` creates it. It has the outputs of
    the calibrated model: the prediction and the parameters of its likelihood.

    ```python
    model = keras.saving.load_model("conformal.keras")
    lower, upper = model.interval(x, 0.9)
    ```
    """

    def predict_distribution(
        self, x: Any, *, groups: Any = None, **kwargs: Any
    ) -> conformal.ConformalDistribution:
        """The predicted distribution for `x`, with a calibrated `interval`."""
        layer = scores_layer(self)
        output = self.predict(x, **{"verbose": 0, **kwargs})
        found = conformal.predicted(output, layer.settings).as_numpy()
        return conformal.ConformalDistribution(found, layer.scores, groups)

    def at_coverage(self, coverage: float = 0.9) -> keras.Model:
        """A Keras model with the outputs `prediction`, `lower` and `upper`.

        The calibration is part of the graph and is exported with it:
        `model.at_coverage(0.9).export("served")`.
        """
        layer = scores_layer(self)
        bound = layer.scores.threshold(coverage)
        interval = ConformalInterval(bound.tolist(), layer.settings)
        return keras.Model(self.input, interval(self.output))
