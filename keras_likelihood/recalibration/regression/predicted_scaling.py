"""Base of the recalibrators that predict a scale from features."""

import numpy as np

from keras_likelihood.recalibration.feature_basis import FeatureBasis
from keras_likelihood.recalibration.fitted_layers import (
    hidden_layers,
    predicted_parameter,
)
from keras_likelihood.recalibration.links import SoftplusLink
from keras_likelihood.recalibration.network import run_network
from keras_likelihood.recalibration.regression.normal_scale import NormalScale
from keras_likelihood.recalibration.regression.regressor import (
    RegressorRecalibrator,
)


class PredictedScaling(RegressorRecalibrator):
    """Predicts each example's scale from its features.

        scale = g * f(network(x)) * base

    with `g` the factor of GlobalScaling and `f` the shifted softplus. A
    subclass fits the network (`_fit_network`), which may have no hidden
    layer.

    Args:
        likelihood: `"auto"`, `"normal"` or `"student_t"`.
        offset: the offset of the softplus, `>= 0`.
    """

    uses_features = True

    def __init__(self, *, likelihood: str = "auto", offset: float = 0.01):
        super().__init__(likelihood=likelihood)
        self.offset = offset

    def _fit_scale(self, z, x, weight):
        base = max(float(np.sqrt(np.average(z**2, weights=weight))), 1e-12)
        basis = FeatureBasis(x, weight)
        link = SoftplusLink(self.offset)
        objective = NormalScale(z / base, basis(x), link, weight)
        first, bias, *rest = self._fit_network(objective, x)
        kernel, shift = basis.to_raw(first)
        self.parameters_["relative_scale"] = base
        self.parameters_["network"] = [kernel, bias + shift, *rest]
        return self._relative(x)

    def _fit_network(self, objective, raw):
        """Sets `parameters_`; returns `[kernel, bias, ...]`.

        Args:
            objective: a `NormalScale`.
            raw: the features, not standardised.
        """
        raise NotImplementedError

    def _relative(self, x):
        eta, _ = run_network(self.parameters_["network"], x)
        value, _ = SoftplusLink(self.offset)(eta)
        return self.parameters_["relative_scale"] * value

    def _relative_graph(self, features):
        *hidden, kernel, bias = self.parameters_["network"]
        return predicted_parameter(
            "normal",
            "scale",
            hidden_layers(features, hidden, "scale"),
            kernel,
            bias,
            units=1,
            offset=self.offset,
        )
