"""A scale linear in the features."""

import keras
import numpy as np

from keras_likelihood.recalibration.evidence import fit_by_evidence
from keras_likelihood.recalibration.feature_basis import FeatureBasis
from keras_likelihood.recalibration.fitted_layers import predicted_parameter
from keras_likelihood.recalibration.links import SoftplusLink
from keras_likelihood.recalibration.regression.normal_scale import NormalScale
from keras_likelihood.recalibration.regression.regressor import (
    RegressorRecalibrator,
)


class LinearScaling(RegressorRecalibrator):
    """Predicts each example's scale from its features.

        scale = g * f(x w + c) * base

    with `g` the factor of GlobalScaling and `f` the shifted softplus. A
    prior pulls towards GlobalScaling with the strength of largest marginal
    likelihood.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.
        offset: of the softplus, `>= 0`. Defaults to 0.01.
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
        fit = fit_by_evidence(objective)
        kernel, shift = basis.to_raw(fit.weights["scale"])
        self.parameters_ = {
            "relative_scale": base,
            "kernel": kernel,
            "intercept": float(fit.weights["free"][0] + shift),
            "prior_precision": fit.strengths["scale"],
        }
        return self._relative(x)

    def _relative(self, x):
        p = self.parameters_
        value, _ = SoftplusLink(self.offset)(x @ p["kernel"] + p["intercept"])
        return p["relative_scale"] * value

    def _relative_graph(self, features):
        p = self.parameters_
        predicted = predicted_parameter(
            "normal",
            "scale",
            features,
            p["kernel"],
            p["intercept"],
            units=1,
            offset=self.offset,
        )
        factor = p["relative_scale"]
        return keras.layers.Rescaling(factor, name="relative_scale")(predicted)
