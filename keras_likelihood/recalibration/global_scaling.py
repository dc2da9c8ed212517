"""One temperature for all examples."""

import keras

from keras_likelihood.recalibration.classifier import ClassifierRecalibrator
from keras_likelihood.recalibration.softmax_moments import (
    solve_temperature,
)


class GlobalScaling(ClassifierRecalibrator):
    """Divides the logits by one temperature (temperature scaling).

        p = softmax(logits / T)

    T minimises the validation NLL, which is convex in 1 / T and solved
    exactly. The predicted classes do not change.

    >>> scaling = GlobalScaling().fit_arrays(logits, y)
    >>> scaling.parameters_["temperature"]
    """

    def _fit(self, logits, labels, features, weight):
        temperature = solve_temperature(logits, labels, weight)
        self.parameters_ = {"temperature": temperature}

    def _apply(self, logits, features):
        return logits / self.parameters_["temperature"]

    def _graph(self, logits, features):
        tau = 1 / self.parameters_["temperature"]
        scaled = keras.layers.Rescaling(tau, name="global_temperature")(logits)
        return keras.layers.Softmax(name="calibrated")(scaled)
