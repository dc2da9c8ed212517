"""Scales that are predicted from features."""

import numpy as np

from keras_likelihood.evidence import fit_by_evidence
from keras_likelihood.recalibration.feature_basis import FeatureBasis
from keras_likelihood.recalibration.network import (
    LinkedObjective,
    SoftplusLink,
    fit_network,
    predicted_parameter,
    run_network,
)
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

    def _fit_scale(self, z, x, weight, own):
        base = own.best_factor(z, weight)
        basis = FeatureBasis(x, weight)
        link = SoftplusLink(self.offset)
        objective = scale_objective(z / base, basis(x), link, weight, own)
        first, bias, *rest = self._fit_network(objective, x)
        kernel, shift = basis.to_raw(first)
        self.parameters_["relative_scale"] = base
        self.parameters_["network"] = [kernel, bias + shift, *rest]
        return self._relative(x)

    def _fit_network(self, objective, raw):
        """Sets `parameters_`; returns `[kernel, bias, ...]`."""
        raise NotImplementedError

    def _relative(self, x):
        eta, _ = run_network(self.parameters_["network"], x)
        value, _ = SoftplusLink(self.offset)(eta)
        return self.parameters_["relative_scale"] * value

    def _relative_graph(self, features):
        parts = self.parameters_["network"]
        return predicted_parameter(
            "normal", "scale", features, parts, units=1, offset=self.offset
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

    def _fit_scale(self, z, x, weight, own):
        relative = super()._fit_scale(z, x, weight, own)
        kernel, bias = self.parameters_["network"]
        self.parameters_["kernel"] = kernel[:, 0]
        self.parameters_["intercept"] = float(bias[0])
        return relative


class DeepScaling(PredictedScaling):
    """Predicts each example's scale by a network on its features.

        scale = g * f(network(x)) * base

    with `g` the factor of GlobalScaling and `f` the shifted softplus. The
    network starts as GlobalScaling. Held-out folds decide how long it is
    trained.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.
        hidden: sizes of the hidden layers. Defaults to `(16,)`.
        offset: the offset of the softplus, `>= 0`. Defaults to 0.01.
        seed: the random seed of the initial weights and the folds. Defaults to
            0.
    """

    def __init__(
        self,
        *,
        likelihood: str = "auto",
        hidden=(16,),
        offset: float = 0.01,
        seed: int = 0,
    ):
        super().__init__(likelihood=likelihood, offset=offset)
        self.hidden = tuple(hidden)
        self.seed = seed

    def _fit_network(self, objective, raw):
        parts, steps = fit_network(objective, raw, self.hidden, self.seed)
        self.parameters_ = {"iterations": steps}
        return parts


def scale_objective(z, x, link, weight, shape) -> LinkedObjective:
    """The objective of a predicted scale s, for residuals `z`.

    nll = standard_nll(z / s) + log s,    s = f(x w + c)
    """

    def by_scale(scale, rows):
        ratio = z[rows] / scale
        loss, slope = shape.at(rows).loss_and_slope(ratio)
        by_log = 1 - ratio * slope
        # Fisher information of log s, which is 2 for a normal density.
        information = 2.0
        if shape.likelihood != "normal":
            information = np.average(by_log**2, weights=weight[rows])
        return loss + np.log(scale), by_log / scale, information / scale**2

    return LinkedObjective(by_scale, {"scale": x}, link, weight)
