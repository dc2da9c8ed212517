"""A map of the logits and a predicted temperature, fitted jointly."""

import keras
import numpy as np
from scipy.special import log_softmax

from keras_likelihood.layers.serving import LogSoftmax, TemperedProbabilities
from keras_likelihood.recalibration.classifier import ClassifierRecalibrator
from keras_likelihood.recalibration.evidence import (
    fit_by_evidence,
    minimise,
    restrength,
)
from keras_likelihood.recalibration.feature_basis import FeatureBasis
from keras_likelihood.recalibration.fitted_layers import predicted_parameter
from keras_likelihood.recalibration.global_temperature import (
    solve_temperature,
)
from keras_likelihood.recalibration.links import SoftplusLink
from keras_likelihood.recalibration.tempered_softmax import (
    TemperedSoftmax,
    map_logits,
)

_MAPS = {None: (), "vector": ("bias", "vector")}
_MAPS["matrix"] = (*_MAPS["vector"], "matrix")
_SAMPLE_ROWS = 4096


class JointScaling(ClassifierRecalibrator):
    """Recalibrates by a map of the logits and a predicted temperature.

        p = softmax((z (1 + v) + z D + b) / T(x)),    T(x) = f(x w + c)

    `z` are the logits (with a map, the log-probabilities) after
    GlobalScaling, `f` the shifted softplus with
    f(0) = 1, so every weight pulls away from GlobalScaling and its prior
    pulls back. The strength of the temperature's prior maximises the
    marginal likelihood; those of the map grow with the number of weights,
    2 k `strength` for the k entries of `v` and `b`, 2 k (k - 1) `strength`
    for those of `D`.

    Args:
        map: `None` (default), `"vector"` (`v` and `b`) or `"matrix"` (`v`,
            `b` and `D`). A map may change the predicted classes.
        temperature: `None` (default), `"logits"` or `"features"`: what `x`
            is.
        strength: of the map's priors, `> 0`. Defaults to 1.
        offset: of the softplus, `>= 0`; T stays above offset / (ln 2 +
            offset) times the global temperature. Defaults to 0.2.
    """

    def __init__(
        self,
        *,
        map: str | None = None,
        temperature: str | None = None,
        strength: float = 1.0,
        offset: float = 0.2,
    ):
        if map not in _MAPS:
            raise ValueError(
                f"`map` must be None, 'vector' or 'matrix'. Received: {map!r}"
            )
        if temperature not in (None, "logits", "features"):
            raise ValueError(
                "`temperature` must be None, 'logits' or 'features'. "
                f"Received: {temperature!r}"
            )
        if not strength > 0:
            raise ValueError(f"`strength` must be > 0. Received: {strength}")
        if not offset >= 0:
            raise ValueError(f"`offset` must be >= 0. Received: {offset}")
        self.map = map
        self.temperature = temperature
        self.strength = strength
        self.offset = offset
        self.uses_features = temperature == "features"
        self.keeps_accuracy = map is None

    def _prepare(self, logits):
        if self.map is None:
            return logits
        return log_softmax(logits.astype("float64"), axis=1)

    def _source(self, z, features):
        if self.temperature == "features":
            return features
        # The softmax does not see a constant added to a row; nor may this.
        return log_softmax(z, axis=1)

    def _fit(self, logits, labels, features, weight):
        z = self._prepare(logits)
        base = solve_temperature(z, labels, weight)
        if self.map is None and z.size <= 2**22:
            z = z.astype("float64")
        self._fit_scaled(z / base, labels, features, weight)
        self.parameters_["temperature"] = base

    def _fit_scaled(self, z, labels, features, weight):
        basis, x = None, None
        if self.temperature is not None:
            source = self._source(z, features)
            basis = FeatureBasis(source, weight)
            x = basis(source)
        fit = None
        if x is not None:
            fit = self._fit_temperature(z, labels, x, weight)
            weights = fit.weights
        if self.map is not None:
            weights = self._fit_map(z, labels, x, weight, fit)
        self.parameters_ = {
            k: v for k, v in weights.items() if k in _MAPS["matrix"]
        }
        if x is not None:
            kernel, shift = basis.to_raw(weights["temperature"])
            self.parameters_["kernel"] = kernel
            self.parameters_["intercept"] = float(weights["free"][0] + shift)
            self.parameters_["prior_precision"] = fit.strengths["temperature"]

    def _fit_temperature(self, z, labels, x, weight):
        """Strength and weights of the temperature alone.

        The strength comes from a sample where there are many rows; all rows
        then finish the fit from there.
        """
        link = SoftplusLink(self.offset)
        stride = max(1, len(labels) // _SAMPLE_ROWS)
        part = slice(None, None, stride)
        sampled = None if weight is None else weight[part]
        sample = TemperedSoftmax(
            z[part], labels[part], x[part], (), link, sampled
        )
        fit = fit_by_evidence(sample)
        if stride > 1:
            sample.evaluate(fit.weights)
            scale = len(labels) / len(labels[part])
            curvatures = {
                k: sample.curvature(k).scaled(scale) for k in fit.weights
            }
            full = TemperedSoftmax(z, labels, x, (), link, weight)
            fit.weights = minimise(
                full, fit.weights, curvatures, fit.strengths, 5
            )
        return fit

    def _fit_map(self, z, labels, x, weight, fit):
        classes = z.shape[1]
        strengths = {
            "bias": 2 * classes * self.strength,
            "vector": 2 * classes * self.strength,
            "matrix": 2 * classes * (classes - 1) * self.strength,
        }
        groups = _MAPS[self.map]
        strengths = {g: strengths[g] for g in groups}
        link = SoftplusLink(self.offset)
        objective = TemperedSoftmax(z, labels, x, groups, link, weight)
        weights = {k: np.zeros(s) for k, s in objective.shapes.items()}
        if fit is not None:
            weights.update(fit.weights)
            strengths.update(fit.strengths)
        objective.evaluate(weights)
        curvatures = {k: objective.curvature(k) for k in weights}
        weights = minimise(objective, weights, curvatures, strengths, 200)
        if fit is None:
            return weights
        # Beside a map the temperature has less to explain.
        objective.evaluate(weights)
        strengths["temperature"], _ = restrength(
            objective.curvature("temperature"),
            weights["temperature"],
            strengths["temperature"],
        )
        fit.strengths = {"temperature": strengths["temperature"]}
        return minimise(objective, weights, curvatures, strengths, 200)

    def _apply(self, logits, features):
        z = self._prepare(logits) / self.parameters_["temperature"]
        mapped = map_logits(z, self.parameters_)
        if self.temperature is None:
            return mapped
        x = self._source(z, features)
        linear = x @ self.parameters_["kernel"] + self.parameters_["intercept"]
        predicted, _ = SoftplusLink(self.offset)(linear)
        return mapped / predicted[:, None]

    def _graph(self, logits, features):
        p = self.parameters_
        z = LogSoftmax(name="log_softmax")(logits) if self.map else logits
        z = keras.layers.Rescaling(
            1 / p["temperature"], name="global_temperature"
        )(z)
        mapped = z if self.map is None else self._map_layer(z)
        if self.temperature is None:
            return keras.layers.Softmax(name="calibrated")(mapped)
        if self.temperature == "logits":
            features = LogSoftmax(name="temperature_source")(z)
        temperature = predicted_parameter(
            "softmax",
            "temperature",
            features,
            p["kernel"],
            p["intercept"],
            units=z.shape[-1],
            offset=self.offset,
        )
        return TemperedProbabilities(name="calibrated")([mapped, temperature])

    def _map_layer(self, z):
        p, classes = self.parameters_, z.shape[-1]
        layer = keras.layers.Dense(classes, name="logit_map")
        mapped = layer(z)
        kernel = np.diag(1 + p["vector"])
        if self.map == "matrix":
            kernel = kernel + p["matrix"]
        layer.set_weights([kernel, p["bias"]])
        return mapped
