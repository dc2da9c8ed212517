"""A scale linear in the features."""

import numpy as np

from keras_likelihood.evidence import fit_by_evidence
from keras_likelihood.recalibration.regression.predicted_scaling import (
    PredictedScaling,
)


class LinearScaling(PredictedScaling):
    """Predicts each example's scale from its features.

        scale = g * f(x w + c) * base

    with `g` the factor of GlobalScaling and `f` the shifted softplus. The
    weights have a prior around zero, which means GlobalScaling. Its strength
    maximises the marginal likelihood.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.
        offset: the offset of the softplus, `>= 0`. Defaults to 0.01.
    """

    def _fit_network(self, objective, raw):
        fit = fit_by_evidence(objective)
        self.parameters_ = {"prior_precision": fit.strengths["scale"]}
        return [np.reshape(fit.weights["scale"], (-1, 1)), fit.weights["free"]]

    def _fit_scale(self, z, x, weight):
        relative = super()._fit_scale(z, x, weight)
        kernel, bias = self.parameters_["network"]
        self.parameters_["kernel"] = kernel[:, 0]
        self.parameters_["intercept"] = float(bias[0])
        return relative
