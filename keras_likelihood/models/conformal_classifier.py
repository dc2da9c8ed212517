"""A classifier with calibrated prediction sets."""

import keras
import numpy as np

from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.conformal_scores import scores_layer
from keras_likelihood.models.class_scores import prediction_sets
from keras_likelihood.models.conformal_outputs import ConformalSet


@serializable
class ConformalClassifier(keras.Model):
    """A Keras model with calibrated prediction sets.

    `kl.recalibration.Conformal` makes it. Its outputs are probabilities. It is
    saved and loaded like any Keras model.

    ```python
    model = keras.saving.load_model("conformal.keras")
    sets = model.predict_set(x, 0.9)  # booleans (n, classes)
    ```
    """

    def predict_set(
        self, x, coverage: float = 0.9, *, groups=None, seed=None, **kwargs
    ) -> np.ndarray:
        """Sets that contain the true class with the given probability.

        Args:
            x: inputs `(n, ...)`, as for `predict`.
            coverage: in (0, 1). Defaults to 0.9.
            groups: label of every example, `(n,)`, if the model was
                calibrated by groups of examples.
            seed: the random seed of randomised sets. Defaults to a new one.
            **kwargs: passed on to `predict`.

        Returns:
            Booleans `(n, ..., classes)`; a yes/no question has two classes.
        """
        layer = scores_layer(self)
        probabilities = self.predict(x, **{"verbose": 0, **kwargs})
        return prediction_sets(
            probabilities, layer.scores, layer.settings, coverage, groups, seed
        )

    def at_coverage(self, coverage: float = 0.9) -> keras.Model:
        """A Keras model that puts out the sets themselves.

        The calibration is part of its graph, so that `export` keeps it.

        Args:
            coverage: in (0, 1). Defaults to 0.9.

        Returns:
            A model with the outputs `probabilities` and `set`, booleans
            `(n, ..., classes)`.
        """
        layer = scores_layer(self)
        settings, groups, count = dict(layer.settings), None, 1
        if settings.pop("randomized"):
            raise ValueError(
                "`at_coverage` needs sets that are not randomised. "
                "Received: a calibration with randomized=True"
            )
        if settings["by_class"]:
            count = max(self.outputs[0].shape[-1], 2)
            groups = np.arange(count)
        bound = layer.scores.threshold(coverage, groups, count)
        sets = ConformalSet(bound.tolist(), **settings)
        return keras.Model(self.input, sets(self.output))
