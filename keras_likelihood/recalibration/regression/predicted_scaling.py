"""Scales that are predicted from features."""

import numpy as np

from keras_likelihood.recalibration.evidence import Curvature, fit_by_evidence
from keras_likelihood.recalibration.feature_basis import FeatureBasis
from keras_likelihood.recalibration.network import (
    SoftplusLink,
    fit_network,
    hidden_layers,
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
        objective = ScaleObjective(z / base, basis(x), link, weight, own)
        first, bias, *rest = self._fit_network(objective, x)
        kernel, shift = basis.to_raw(first)
        self.parameters_["relative_scale"] = base
        self.parameters_["network"] = [kernel, bias + shift, *rest]
        return self._relative(x)

    def _fit_network(self, objective, raw):
        """Sets `parameters_`; returns `[kernel, bias, ...]`.

        Args:
            objective: a `ScaleObjective`.
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
        objective.weight = objective.weight / objective.weight.mean()
        parts, steps = fit_network(
            objective.by_row, objective.x, raw, self.hidden, self.seed
        )
        self.parameters_ = {"iterations": steps}
        return parts


class ScaleObjective:
    """Summed NLL as a function of the weights of the scale.

        nll = standard_nll(z / s) + log s,    s = f(x w + c)

    Args:
        z: residuals over their present scale, `(rows,)`.
        x: standardised features, `(rows, columns)`.
        link: the map `f` with its derivative.
        weight: `(rows,)`.
        shape: the `ResidualShape` that gives `standard_nll`.
    """

    def __init__(self, z, x, link, weight, shape):
        self.z = z
        self.x = x
        self.link = link
        self.weight = weight
        self.shape = shape
        self.shapes = {"scale": (x.shape[1],), "free": (1,)}

    def evaluate(self, weights):
        """Returns the NLL and its gradients by group."""
        eta = self.x @ weights["scale"] + weights["free"][0]
        nll, gradient = self.by_row(eta, slice(None))
        scale, slope = self.link(eta)
        # Fisher information of log s, which is 2 for a normal density.
        information = 2.0
        if self.shape.likelihood != "normal":
            by_log = gradient / np.maximum(self.weight * slope / scale, 1e-30)
            information = np.average(by_log**2, weights=self.weight)
        self._information = information * self.weight * (slope / scale) ** 2
        return nll.sum(), {
            "scale": self.x.T @ gradient,
            "free": np.array([gradient.sum()]),
        }

    def by_row(self, eta, rows):
        """The weighted NLL of some rows and its derivative in `eta`."""
        scale, slope = self.link(eta)
        z, weight = self.z[rows] / scale, self.weight[rows]
        loss, psi = self.shape.at(rows).loss_and_slope(z)
        gradient = (1 - z * psi) * slope / scale
        return weight * (loss + np.log(scale)), weight * gradient

    def curvature(self, name):
        """Expected curvature of a group at the last evaluation."""
        total = self._information.sum()
        if name == "free":
            return Curvature.of(np.array([[total]]) + 1e-12)
        root = np.sqrt(self._information)
        weighted = self.x * root[:, None]
        middle = root / np.sqrt(total)
        weighted -= np.outer(middle, middle @ weighted)
        return Curvature.of(weighted.T @ weighted)
