"""A regressor with a recalibrated distribution."""

import keras

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.serving import LikelihoodPrediction
from keras_likelihood.likelihoods.output import distribution_of


@serializable
class RecalibratedRegressor(keras.Model):
    """A Keras model whose outputs are the parameters of a distribution.

    The recalibrators of `kl.recalibration.regression` make it. It is saved and
    loaded like any Keras model.

    ```python
    model = keras.saving.load_model("calibrated.keras")
    lower, upper = model.interval(x, 0.9)
    ```
    """

    def predict_distribution(self, x, **kwargs) -> likelihoods.Likelihood:
        """The distribution of the targets of `x`.

        Args:
            x: inputs `(n, ...)`, as for `predict`.
            **kwargs: passed on to `predict`.
        """
        output = self.predict(x, **{"verbose": 0, **kwargs})
        found = [v for v in self.layers if isinstance(v, LikelihoodPrediction)]
        likelihood = likelihoods.get(found[-1].likelihood)
        return distribution_of(likelihood, output).as_numpy()

    def interval(self, x, coverage: float = 0.9, **kwargs):
        """Central intervals of the targets of `x`.

        Args:
            x: inputs `(n, ...)`, as for `predict`.
            coverage: in (0, 1). Defaults to 0.9.
            **kwargs: passed on to `predict`.

        Returns:
            `(lower, upper)` as NumPy, each `(n, 1)`.
        """
        return self.predict_distribution(x, **kwargs).interval(coverage)
