"""Recalibrates by a predicted temperature, then a map of the logits."""

import dataclasses
from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.reading.targets import check_fitted
from keras_likelihood.recalibration import network, softmax, steps
from keras_likelihood.recalibration.classifier import ClassifierRecalibrator
from keras_likelihood.recalibration.inputs import (
    SOURCES,
    FeatureBasis,
    Rows,
    library_of,
    raw_columns,
    standardised,
)
from keras_likelihood.recalibration.softmax import OFFSET
from keras_likelihood.recalibration.steps import MAPS


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class JointScaling(ClassifierRecalibrator):
    """Recalibrates by a predicted temperature and a map of the logits.

        u = log_softmax(z / T(x)),    T(x) = f(x w + c)
        p = softmax(u (1 + v) + u D + b + x W)

    `z` are the logits after GlobalScaling. `f` is the softplus shifted by 0.2,
    scaled to f(0) = 1. Each group of weights has a prior around zero. If all
    are zero, the result is GlobalScaling.

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
            one temperature for all), `"logits"`, `"features"` or `"all"`: the
            log-probabilities, the sorted log-probabilities and, if there are
            any, the features. Each of these has its own strength.
        strength: strength of the priors of `v`, `b` and `D`, `> 0`. Defaults
            to 1.
        prior: `"evidence"` (default), or `None` for weights `w` without a
            prior, fitted by maximum likelihood.
    """

    logit_map: str | None = None
    temperature_from: str | None = None
    strength: float = 1.0
    prior: str | None = "evidence"

    def __post_init__(self) -> None:
        mapped, source, prior = (
            self.logit_map,
            self.temperature_from,
            self.prior,
        )
        check_argument("logit_map", mapped, mapped in MAPS, str([*MAPS]))
        fits, allowed = source in SOURCES, str([*SOURCES])
        check_argument("temperature_from", source, fits, allowed)
        check_argument("strength", self.strength, self.strength > 0, "> 0")
        fits, allowed = prior in ("evidence", None), "'evidence' or None"
        check_argument("prior", prior, fits, allowed)
        self.uses_features = "features" in (mapped, source)
        if source == "all" and mapped != "features":
            self.uses_features = "optional"

    @property
    def temperature(self) -> float:
        """The fitted temperature of all examples."""
        check_fitted(self, "parameters_", "temperature")
        return self.parameters_["temperature"]

    def _fit(self, rows: Rows) -> None:
        base = softmax.solve_temperature(rows)
        self.parameters_ = {"temperature": base}
        groups = [*SOURCES[self.temperature_from]]
        groups += ["features"] if self.logit_map == "features" else []
        if groups or self.logit_map:
            z = rows.with_logits(scaled(rows.logits, base))
            raw = raw_columns(groups, z.logits, rows.features)
            bases, z.columns = standardised(raw, rows.weight)
            fitted = steps.TemperedRows(
                *(z, self.temperature_from, base),
                has_prior=self.prior is not None,
            )
            self._set_parameters(fitted, bases)

    def _set_parameters(
        self, fitted: steps.TemperedRows, bases: dict[str, FeatureBasis]
    ) -> None:
        """Turns fitted weights in bases into weights of the raw columns."""
        self.parameters_ = {"temperature": fitted.base}
        if self.logit_map is not None:
            mapped = fitted.map(self.logit_map, self.strength)
            if "features" in mapped:
                kernel, shift = bases["features"].to_raw(mapped["features"])
                mapped = {"features": kernel, "bias": shift}
            self.parameters_ |= {"floor": fitted.floor, **mapped}
        if self.temperature_from is None:
            return
        weights, strengths = fitted.predictor
        raw = [bases[k].to_raw(w) for k, w in weights.items() if k != "free"]
        kernels, shifts = zip(*raw, strict=True)
        kernel, bias = np.concatenate(kernels), weights["free"] + sum(shifts)
        self.parameters_ |= {
            "network": [kernel[:, None], bias],
            "prior_precision": strengths.get(self.temperature_from, strengths),
        }

    def _map(self, logits: Tensor, features: Tensor | None) -> Tensor:
        p, z = self.parameters_, logits / self.parameters_["temperature"]
        if self.temperature_from is not None:
            columns = raw_columns(SOURCES[self.temperature_from], z, features)
            x = library_of(z).concatenate([*columns.values()], axis=-1)
            z = z / network.predicted_parameter(x, p["network"], OFFSET)
        if self.logit_map is None:
            return z
        return softmax.map_logits(steps.for_map(z, p["floor"]), p, features)


def scaled(logits: Array, base: float) -> Array:
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
    probabilities = scaling.calibrate(test_logits)
    ```
    """

    def __init__(self) -> None:
        super().__init__()


class LinearScaling(JointScaling):
    """Predicts each example's temperature from its logits.

        p = softmax(z / T(z)),    T(z) = f(log_softmax(z) w + c)

    It is `JointScaling(temperature_from="logits")`. The predicted classes do
    not change. The paper's predictor has `prior=None`.
    """

    def __init__(self, *, prior: str | None = "evidence"):
        super().__init__(temperature_from="logits", prior=prior)


class LinearFeatureScaling(JointScaling):
    """Predicts each example's temperature from its penultimate features.

        p = softmax(z / T(x)),    T(x) = f(x w + c)

    It is `JointScaling(temperature_from="features")`, and otherwise like
    `LinearScaling`.

    ```python
    scaling = LinearFeatureScaling().fit_arrays(logits, y, features)
    probabilities = scaling.calibrate(test_logits, test_features)
    ```
    """

    def __init__(self, *, prior: str | None = "evidence"):
        super().__init__(temperature_from="features", prior=prior)


class VectorScaling(JointScaling):
    """Multiplies each logit by a weight and adds a bias.

        p = softmax(z (1 + v) + b)

    `z` are the log-probabilities after GlobalScaling, and `strength` is as in
    `JointScaling`. It may change the predicted classes.
    """

    def __init__(self, *, strength: float = 1.0):
        super().__init__(logit_map="vector", strength=strength)


class MatrixScaling(JointScaling):
    """Maps the logits by a regularised matrix and bias.

        p = softmax(z (1 + v) + z D + b)

    Otherwise it is like `VectorScaling`.
    """

    def __init__(self, *, strength: float = 1.0):
        super().__init__(logit_map="matrix", strength=strength)


class DeepScaling(LinearFeatureScaling):
    """Predicts each example's temperature by a network on its features.

        p = softmax(z / T(x)),    T(x) = f(network(x))

    The network starts as GlobalScaling, and the number of iterations is chosen
    on held-out folds. The predicted classes do not change.

    Args:
        hidden: sizes of the hidden layers. Defaults to `(16,)`.
        prior: `None` trains without weight decay and to the end.
        seed: the random seed of the initial weights and the folds.
    """

    def __init__(
        self,
        *,
        hidden: tuple[int, ...] = (16,),
        prior: str | None = "evidence",
        seed: int = 0,
    ):
        super().__init__(prior=prior)
        self.hidden, self.seed = tuple(hidden), seed

    def _fit(self, rows: Rows) -> None:
        base = softmax.solve_temperature(rows)
        features: Any = rows.features
        basis = FeatureBasis(features, rows.weight)
        columns = {"features": basis(features).astype("float64")}
        objective = softmax.tempered_softmax(
            rows.with_logits(rows.logits / base), columns
        )
        options = self.hidden, self.seed, self.prior is not None
        (kernel, bias, *rest), iterations = network.fit_network(
            objective, features, *options
        )
        kernel, shift = basis.to_raw(kernel)
        self.parameters_ = {
            "temperature": base,
            "network": [kernel, bias + shift, *rest],
            "iterations": iterations,
        }
