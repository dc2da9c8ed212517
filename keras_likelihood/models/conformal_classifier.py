"""A classifier with calibrated prediction sets."""

import keras
import numpy as np

from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.conformal_scores import scores_layer
from keras_likelihood.models.class_scores import prediction_sets


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
