"""A temperature predicted by a small network on the features."""

import keras

from keras_likelihood.layers.serving import TemperedProbabilities
from keras_likelihood.recalibration.classifier import ClassifierRecalibrator
from keras_likelihood.recalibration.feature_basis import FeatureBasis
from keras_likelihood.recalibration.network import (
    SoftplusLink,
    fit_network,
    predicted_parameter,
    run_network,
)
from keras_likelihood.recalibration.softmax_moments import (
    solve_temperature,
)
from keras_likelihood.recalibration.softmax_objectives import tempered_softmax


class DeepScaling(ClassifierRecalibrator):
    """Predicts each example's temperature by a network on its features.

        p = softmax(z / T(x)),    T(x) = f(network(x))

    with `z` the logits after GlobalScaling and `f` the shifted softplus. The
    network starts as GlobalScaling. Held-out folds decide how long it is
    trained. The predicted classes do not change.

    Args:
        hidden: sizes of the hidden layers. Defaults to `(16,)`.
        offset: the offset of the softplus, `>= 0`. Defaults to 0.2.
        seed: the random seed of the initial weights and the folds. Defaults to
            0.
    """

    uses_features = True

    def __init__(self, *, hidden=(16,), offset: float = 0.2, seed: int = 0):
        self.hidden = tuple(hidden)
        self.offset = offset
        self.seed = seed

    def _fit(self, logits, labels, features, weight):
        base = solve_temperature(logits, labels, weight)
        z = logits / base
        basis = FeatureBasis(features, weight)
        columns = {"features": basis(features).astype("float64")}
        link = SoftplusLink(self.offset)
        objective = tempered_softmax(z, labels, columns, link, weight)
        parts, steps = fit_network(objective, features, self.hidden, self.seed)
        kernel, shift = basis.to_raw(parts[0])
        parts = [kernel, parts[1] + shift, *parts[2:]]
        self.parameters_ = {
            "temperature": base,
            "network": parts,
            "iterations": steps,
        }

    def _apply(self, logits, features):
        x = features.astype("float64")
        eta, _ = run_network(self.parameters_["network"], x)
        temperature, _ = SoftplusLink(self.offset)(eta)
        base = self.parameters_["temperature"]
        return logits / (base * temperature[:, None])

    def _graph(self, logits, features):
        base = self.parameters_["temperature"]
        z = keras.layers.Rescaling(1 / base, name="global_temperature")(logits)
        temperature = predicted_parameter(
            "softmax",
            "temperature",
            features,
            self.parameters_["network"],
            units=z.shape[-1],
            offset=self.offset,
        )
        return TemperedProbabilities(name="calibrated")([z, temperature])
