"""A scale predicted by a small network on the features."""

import keras
import numpy as np

from keras_likelihood.recalibration.feature_basis import FeatureBasis
from keras_likelihood.recalibration.fitted_layers import (
    hidden_layers,
    predicted_parameter,
)
from keras_likelihood.recalibration.links import SoftplusLink
from keras_likelihood.recalibration.network import fit_network, run_network
from keras_likelihood.recalibration.regression.normal_scale import NormalScale
from keras_likelihood.recalibration.regression.regressor import (
    RegressorRecalibrator,
)


class DeepScaling(RegressorRecalibrator):
    """Predicts each example's scale by a network on its features.

        scale = g * f(network(x)) * base

    with `g` the factor of GlobalScaling and `f` the shifted softplus. The
    network starts as GlobalScaling; held-out folds decide how long it is
    trained.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.
        hidden: sizes of the hidden layers. Defaults to `(16,)`.
        offset: of the softplus, `>= 0`. Defaults to 0.01.
        seed: of the initial weights and the folds. Defaults to 0.
    """

    uses_features = True

    def __init__(
        self,
        *,
        likelihood: str = "auto",
        hidden=(16,),
        offset: float = 0.01,
        seed: int = 0,
    ):
        super().__init__(likelihood=likelihood)
        self.hidden = tuple(hidden)
        self.offset = offset
        self.seed = seed

    def _fit_scale(self, z, x, weight):
        base = max(float(np.sqrt(np.average(z**2, weights=weight))), 1e-12)
        basis = FeatureBasis(x, weight)
        inputs = basis(x)
        objective = NormalScale(
            z / base, inputs, SoftplusLink(self.offset), weight / weight.mean()
        )
        parts, steps = fit_network(
            objective.by_row, inputs, self.hidden, self.seed
        )
        kernel, shift = basis.to_raw(parts[0])
        self.parameters_ = {
            "relative_scale": base,
            "network": [kernel, parts[1] + shift, *parts[2:]],
            "iterations": steps,
        }
        return self._relative(x)

    def _relative(self, x):
        eta, _ = run_network(self.parameters_["network"], x)
        value, _ = SoftplusLink(self.offset)(eta)
        return self.parameters_["relative_scale"] * value

    def _relative_graph(self, features):
        *hidden, kernel, bias = self.parameters_["network"]
        predicted = predicted_parameter(
            "normal",
            "scale",
            hidden_layers(features, hidden, "scale"),
            kernel,
            bias,
            units=1,
            offset=self.offset,
        )
        factor = self.parameters_["relative_scale"]
        return keras.layers.Rescaling(factor, name="relative_scale")(predicted)
