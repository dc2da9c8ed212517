"""Recalibrates by a predicted temperature, then a map of the logits."""

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.recalibration import inputs, network, softmax, steps
from keras_likelihood.recalibration.classifier import ClassifierRecalibrator
from keras_likelihood.recalibration.feature_basis import (
    SOURCES,
    FeatureBasis,
    raw_columns,
    standardised_columns,
)


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class JointScaling(ClassifierRecalibrator):
    """Recalibrates by a predicted temperature and a map of the logits.

        u = log_softmax(z / T(x)),    T(x) = f(x w + c)
        p = softmax(u (1 + v) + u D + b + x W)

    `z` are the logits after GlobalScaling. `f` is the shifted softplus, with
    f(0) = 1. If all weights are zero, the result is GlobalScaling. Each
    group of weights has a prior around zero.

    The temperature is fitted first, then the map of the tempered logits. The
    strengths of the priors of `w` and `W` maximise the marginal likelihood.
    With k classes the others are 2 k `strength` for `v` and `b`, and
    2 k (k - 1) `strength` for `D`, as in structured matrix scaling (Berta,
    Holzmueller, Jordan and Bach, 2026): `logit_map="matrix"`, strength 1. With
    two classes, `"vector"` is the family of beta calibration (Kull, Silva Filho
    and Flach, 2017).

    Args:
        logit_map: `None` (default), `"vector"` (`v` and `b`), `"matrix"`
            (`v`, `b` and `D`) or `"features"` (`W`). With a map the
            predicted classes may change.
        temperature_from: inputs of the predicted temperature: `None` (default,
            one temperature for all), `"logits"`, `"features"` or `"all"`.
            `"all"` uses the log-probabilities, the sorted log-probabilities
            and, if there are any, the features. Each of these groups has its
            own strength.
        strength: strength of the priors of `v`, `b` and `D`, `> 0`. Defaults
            to 1.
        offset: offset of the softplus, `>= 0`. T is always above offset /
            (ln 2 + offset) times the global temperature. Defaults to 0.2.
        prior: `"evidence"` (default), or `None` for weights `w` without a
            prior, fitted by maximum likelihood.
    """

    logit_map: str | None = None
    temperature_from: str | None = None
    strength: float = 1.0
    offset: float = 0.2
    prior: str | None = "evidence"

    def __post_init__(self) -> None:
        mapped, source = self.logit_map, self.temperature_from
        for name, fits, allowed in (
            ("logit_map", mapped in steps.MAPS, str([*steps.MAPS])),
            ("temperature_from", source in SOURCES, str([*SOURCES])),
            ("strength", self.strength > 0, "> 0"),
            ("offset", self.offset >= 0, ">= 0"),
            ("prior", self.prior in ("evidence", None), "'evidence' or None"),
        ):
            check_argument(name, getattr(self, name), fits, allowed)
        self.uses_features = "features" in (mapped, source)
        if source == "all" and mapped != "features":
            self.uses_features = "optional"
        self.keeps_accuracy = mapped is None

    @property
    def temperature(self) -> float:
        """The fitted temperature of all examples, before a predicted one."""
        inputs.check_fitted(self, "parameters_", "temperature")
        return self.parameters_["temperature"]

    def _fit(
        self,
        logits: Array,
        labels: Array,
        features: Array | None,
        weight: Array,
    ) -> None:
        base = softmax.solve_temperature(logits, labels, weight)
        z = scaled(logits, base)
        groups = dict.fromkeys(SOURCES[self.temperature_from])
        if self.logit_map == "features":
            groups["features"] = None
        bases, x = standardised_columns(groups, z, features, weight)
        fitted = steps.FittedSteps(z, labels, x, weight, self.offset, base)
        fitted.has_prior = self.prior is not None
        self._set_parameters(base, bases, fitted)

    def _set_parameters(
        self, base: float, bases: dict[str, Any], fitted: steps.FittedSteps
    ) -> None:
        """Turns fitted weights in bases into weights of the raw columns."""
        predicted, mapped = fitted.weights(self)
        self.parameters_ = {"temperature": base, **mapped}
        if self.logit_map is not None:
            self.parameters_["floor"] = fitted.floor
        if "features" in mapped:
            kernel, shift = bases["features"].to_raw(mapped["features"])
            self.parameters_ |= {"features": kernel, "bias": shift}
        if predicted is None:
            return
        weights = dict(predicted.weights)
        intercept = weights.pop("free")[0]
        raw = [bases[name].to_raw(weight) for name, weight in weights.items()]
        self.parameters_ |= {
            "kernel": np.concatenate([kernel for kernel, _ in raw]),
            "intercept": float(intercept + sum(shift for _, shift in raw)),
            "prior_precision": predicted.strengths.get(
                self.temperature_from, predicted.strengths
            ),
        }

    def _apply(self, logits: Array, features: Array | None) -> Array:
        p = self.parameters_
        z = logits / p["temperature"]
        if self.temperature_from is not None:
            raw = raw_columns(SOURCES[self.temperature_from], z, features)
            x = np.concatenate(list(raw.values()), axis=1)
            linear, _ = network.run_network(self._network(), x)
            predicted, _ = network.shifted_softplus(linear, self.offset)
            z = z / predicted[:, None]
        if self.logit_map is None:
            return z
        logs = steps.for_map(z, p["floor"])
        return softmax.map_logits(logs, p, features)

    def _network(self) -> list[Any]:
        p = self.parameters_
        return p.get("network") or [p["kernel"][:, None], p["intercept"]]

    def _graph(self, logits: Tensor, features: Tensor | None) -> Tensor:
        p, source = self.parameters_, self.temperature_from
        z = keras.layers.Rescaling(1 / p["temperature"])(logits)
        if source is not None:
            columns: dict = {}
            if "logits" in SOURCES[source]:
                columns["logits"] = ops.log_softmax(z)
            if "sorted" in SOURCES[source]:
                columns["sorted"] = ops.sort(columns["logits"])
            if "features" in SOURCES[source] and features is not None:
                columns["features"] = features
            x = [columns[name] for name in SOURCES[source] if name in columns]
            x = ops.concatenate(x, axis=-1) if len(x) > 1 else x[0]
            z = z / network.predicted_parameter(x, self._network(), self.offset)
        if self.logit_map is None:
            return z
        floor, classes = p["floor"], z.shape[-1]
        z = ops.log_softmax(z)
        if floor:
            z = ops.log((1 - floor) * ops.exp(z) + floor / classes)
        layer = keras.layers.Dense(classes)
        if self.logit_map == "features":
            mapped = layer(features)
            layer.set_weights([p["features"], p["bias"]])
            return z + mapped
        mapped = layer(z)
        kernel = np.diag(1 + p["vector"]) + p.get("matrix", 0.0)
        layer.set_weights([kernel, p["bias"]])
        return mapped


def scaled(logits, base):
    """`logits / base`, in float64 if there are not too many."""
    if logits.size <= 2**22:
        logits = logits.astype("float64")
    return logits / base


class GlobalScaling(JointScaling):
    """Divides the logits by one temperature (temperature scaling).

        p = softmax(logits / T)

    T minimises the validation NLL, which is convex in 1 / T and solved
    exactly. The predicted classes do not change.

    ```python
    scaling = GlobalScaling().fit_arrays(logits, y)
    scaling.temperature
    ```
    """

    def __init__(self) -> None:
        super().__init__()

    def _fit(
        self,
        logits: Array,
        labels: Array,
        features: Array | None,
        weight: Array,
    ) -> None:
        temperature = softmax.solve_temperature(logits, labels, weight)
        self.parameters_ = {"temperature": temperature}


class LinearScaling(JointScaling):
    """Predicts each example's temperature from its logits.

        p = softmax(z / T(z)),    T(z) = f(log_softmax(z) w + c)

    with `z` the logits after GlobalScaling. The prior of the weights and the
    shifted softplus `f` are as in `JointScaling`. The predicted classes do not
    change.

    Args:
        offset, prior: as in `JointScaling`. The paper's predictor has
            `prior=None`.

    ```python
    scaling = LinearScaling().fit_arrays(logits, y)
    probabilities = scaling.calibrate(test_logits)
    ```
    """

    def __init__(
        self, *, offset: float = 0.2, prior: str | None = "evidence"
    ) -> None:
        super().__init__(temperature_from="logits", offset=offset, prior=prior)


class LinearFeatureScaling(JointScaling):
    """Predicts each example's temperature from its features.

        p = softmax(z / T(x)),    T(x) = f(x w + c)

    with `z` the logits after GlobalScaling and `x` the penultimate features.
    The prior of the weights and the shifted softplus `f` are as in
    `JointScaling`. The predicted classes do not change.

    Args:
        offset, prior: as in `JointScaling`. The paper's predictor has
            `prior=None`.

    ```python
    scaling = LinearFeatureScaling().fit_arrays(logits, y, features)
    probabilities = scaling.calibrate(test_logits, test_features)
    ```
    """

    def __init__(
        self, *, offset: float = 0.2, prior: str | None = "evidence"
    ) -> None:
        super().__init__(
            temperature_from="features", offset=offset, prior=prior
        )


class VectorScaling(JointScaling):
    """Multiplies each logit by a weight and adds a bias.

        p = softmax(z (1 + v) + b)

    `z` are the log-probabilities after GlobalScaling. It may change the
    predicted classes.

    Args:
        strength: strength of the prior, which favours GlobalScaling, `> 0`.
            Defaults to 1.
    """

    def __init__(self, *, strength: float = 1.0) -> None:
        super().__init__(logit_map="vector", strength=strength)


class MatrixScaling(JointScaling):
    """Maps the logits by a regularised matrix and bias.

        p = softmax(z (1 + v) + z D + b)

    `z` are the log-probabilities after GlobalScaling. The diagonal, the bias
    and the other entries have separate priors. It may change the predicted
    classes.

    Args:
        strength: strength of the prior, which favours GlobalScaling, `> 0`.
            Defaults to 1.
    """

    def __init__(self, *, strength: float = 1.0) -> None:
        super().__init__(logit_map="matrix", strength=strength)


class DeepScaling(JointScaling):
    """Predicts each example's temperature by a network on its features.

        p = softmax(z / T(x)),    T(x) = f(network(x))

    with `z` the logits after GlobalScaling and `f` the shifted softplus. The
    network starts as GlobalScaling. The number of iterations is chosen on
    held-out folds. The predicted classes do not change.

    Args:
        hidden: sizes of the hidden layers. Defaults to `(16,)`.
        offset: the offset of the softplus, `>= 0`. Defaults to 0.2.
        prior: `None` trains without weight decay and to the end.
        seed: the random seed of the initial weights and the folds. Defaults to
            0.

    ```python
    scaling = DeepScaling().fit_arrays(logits, y, features)
    ```
    """

    def __init__(
        self,
        *,
        hidden: tuple[int, ...] = (16,),
        offset: float = 0.2,
        prior: str | None = "evidence",
        seed: int = 0,
    ) -> None:
        super().__init__(
            temperature_from="features", offset=offset, prior=prior
        )
        self.hidden = tuple(hidden)
        self.seed = seed

    def _fit(
        self,
        logits: Array,
        labels: Array,
        features: Array | None,
        weight: Array,
    ) -> None:
        base = softmax.solve_temperature(logits, labels, weight)
        basis = FeatureBasis(features, weight)
        columns = {"features": basis(features).astype("float64")}
        objective = softmax.tempered_softmax(
            logits / base, labels, columns, self.offset, weight
        )
        (kernel, bias, *rest), iterations = network.fit_network(
            objective, features, self.hidden, self.seed, self.prior is not None
        )
        kernel, shift = basis.to_raw(kernel)
        self.parameters_ = {
            "temperature": base,
            "network": [kernel, bias + shift, *rest],
            "iterations": iterations,
        }
