"""A regressor with calibrated intervals."""

import keras

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.conformal_scores import scores_layer
from keras_likelihood.likelihoods.output import distribution_of
from keras_likelihood.models.conformal_distribution import (
    ConformalDistribution,
    tempered,
)
from keras_likelihood.models.conformal_outputs import ConformalInterval


@serializable
class ConformalRegressor(keras.Model):
    """A Keras model with calibrated intervals.

    `kl.recalibration.regression.Conformal` makes it. Its outputs are those of
    the model that was calibrated: the prediction and the parameters of its
    likelihood. It is saved and loaded like any Keras model.

    ```python
    model = keras.saving.load_model("conformal.keras")
    lower, upper = model.interval(x, 0.9)
    ```
    """

    def interval(self, x, coverage: float = 0.9, *, groups=None, **kwargs):
        """Intervals that contain new targets with the given probability.

        Args:
            x: inputs `(n, ...)`, as for `predict`.
            coverage: in (0, 1). Defaults to 0.9.
            groups: label of every example, `(n,)`, if the model was
                calibrated by groups.
            **kwargs: passed on to `predict`.

        Returns:
            `(lower, upper)` as NumPy, each of the prediction's shape.
        """
        calibrated = self.predict_distribution(x, groups=groups, **kwargs)
        return calibrated.interval(coverage)

    def predict_distribution(
        self, x, *, groups=None, **kwargs
    ) -> ConformalDistribution:
        """The distribution of the targets of `x`, of NumPy arrays.

        Args:
            x: inputs.
            groups: as in `interval`.
            **kwargs: passed on to `predict`.
        """
        layer = scores_layer(self)
        output = self.predict(x, **{"verbose": 0, **kwargs})
        settings = layer.settings
        found = distribution_of(likelihoods.get(settings["likelihood"]), output)
        found = tempered(found, settings["trust"], settings["units"])
        return ConformalDistribution(found.as_numpy(), layer.scores, groups)

    def at_coverage(self, coverage: float = 0.9) -> keras.Model:
        """A Keras model that puts out the intervals themselves.

        The calibration is part of its graph, so that `export` keeps it.

        ```python
        model.at_coverage(0.9).export("served")
        ```

        Args:
            coverage: in (0, 1). Defaults to 0.9.

        Returns:
            A model with the outputs `prediction`, `lower` and `upper`.
        """
        layer = scores_layer(self)
        bound = layer.scores.threshold(coverage)
        interval = ConformalInterval(bound.tolist(), **layer.settings)
        return keras.Model(self.input, interval(self.output))
