"""Recalibrates by a predicted temperature, then a map of the logits."""

import dataclasses
import functools
from typing import Any

import numpy as np

from keras_likelihood.backend.operations import library_of
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.reading.targets import check_fitted
from keras_likelihood.recalibration import network, softmax
from keras_likelihood.recalibration.classifier import ClassifierRecalibrator
from keras_likelihood.recalibration.inputs import (
    SOURCES,
    FeatureBasis,
    Rows,
    log_softmax,
    raw_columns,
    standardised,
)
from keras_likelihood.recalibration.penalised_fit import (
    Groups,
    curvatures_at,
    fit_by_evidence,
    fit_penalised,
    minimise,
)
from keras_likelihood.recalibration.softmax import OFFSET

MAPS: dict[str | None, tuple[str, ...]] = {
    None: (),
    "vector": ("bias", "vector"),
    "matrix": ("bias", "vector", "matrix"),
    "features": ("features",),
}
_SAMPLE_ROWS = 4096
_ITERATIONS = 60
_MOST = 500
"""Iterations of a fit without a prior."""
_FEW_NUMBERS = 2**18


@dataclasses.dataclass
class TemperedRows:
    """Rows, a temperature fitted to them, then maps of the tempered logits.

    If both were fitted together, each would undo the shrinkage of the other.
    The logits have already been divided by `base`, the temperature of all rows.
    A `source` of the columns predicts another one (see `JointScaling`). The
    strengths of priors come from all rows, in `whole` or in this object.
    """

    rows: Rows
    source: str | None
    base: float
    floor: float = 0.0
    has_prior: bool = True
    whole: "TemperedRows | None" = None

    def part(self, index: Array) -> "TemperedRows":
        """The same object for some rows."""
        rows = self.rows.part(index)
        return dataclasses.replace(self, rows=rows, whole=self)

    def losses(
        self, logit_map: str | None, strength: float, rows: Rows
    ) -> Array:
        """-log p of the labels of other rows, after a map or without one."""
        z = self._tempered(rows)
        if logit_map is not None:
            weights = self.map(logit_map, strength)
            z = for_map(z, self.floor)
            z = softmax.map_logits(z, weights, rows.features)
        return -log_softmax(z)[np.arange(len(z)), rows.labels]

    def _tempered(self, rows: Rows) -> Array:
        if self.source is None:
            return rows.logits / self._temperature
        linear = network.linear_part(self._inputs(rows), self.predictor[0])
        value, _ = network.shifted_softplus(linear, OFFSET)
        return rows.logits / value[:, None]

    def _inputs(self, rows: Rows) -> Groups:
        names = SOURCES[self.source]
        return {name: x for name, x in rows.columns.items() if name in names}

    @functools.cached_property
    def _temperature(self) -> float:
        if self.whole is None:
            return 1.0
        rows = self.rows.with_logits(self.rows.logits * self.base)
        return softmax.solve_temperature(rows, softmax.SPREAD) / self.base

    @functools.cached_property
    def predictor(self) -> tuple[Groups, dict[str, float]]:
        """Weights of the predicted temperature, and strengths of priors."""
        objective = self._objective(1)
        if self.whole is not None or not self.has_prior:
            strengths = self.whole.predictor[1] if self.whole else {}
            most = _ITERATIONS if self.has_prior else _MOST
            return fit_penalised(objective, strengths, most), strengths
        every = max(1, len(self.rows.labels) // _SAMPLE_ROWS)
        sample = self._objective(every)
        weights, strengths = fit_by_evidence(sample)
        if every > 1:
            curvatures = curvatures_at(sample, weights)
            for curvature in curvatures.values():
                curvature.values *= len(objective.weight) / len(sample.weight)
            weights = minimise(objective, weights, curvatures, strengths, 5)
        return weights, strengths

    def _objective(self, every: int) -> network.LinkedObjective:
        rows = self.rows.part(slice(None, None, every))
        return softmax.tempered_softmax(rows, self._inputs(rows))

    def map(self, logit_map: str, strength: float) -> Groups:
        """The weights of a map of the tempered logits or of the features."""
        strengths = (self.whole or self)._strengths(logit_map, strength)
        return fit_penalised(self._mapped(logit_map), strengths, _ITERATIONS)

    def _mapped(self, logit_map: str) -> softmax.MappedSoftmax:
        return softmax.MappedSoftmax(self._tempered_rows, MAPS[logit_map])

    @functools.cached_property
    def _tempered_rows(self) -> Rows:
        """The rows with the inputs of a map."""
        z = self._tempered(self.rows)
        return self.rows.with_logits(for_map(z, self.floor))

    def _strengths(self, logit_map: str, strength: float) -> dict[str, float]:
        if logit_map == "features":
            return self._strength_of_features
        classes = self.rows.logits.shape[1]
        precision = 2 * classes * strength
        others = {"matrix": precision * (classes - 1)}
        return {k: others.get(k, precision) for k in MAPS[logit_map]}

    @functools.cached_property
    def _strength_of_features(self) -> dict[str, float]:
        objective = self._mapped("features")
        return fit_by_evidence(objective, rounds=4)[1]


def for_map(z: Tensor, floor: float) -> Tensor:
    """Log-probabilities of `(1 - floor) p + floor / classes`."""
    xp, logs = library_of(z), log_softmax(z)
    if floor:
        logs = xp.log((1 - floor) * xp.exp(logs) + floor / z.shape[-1])
    if xp is np:
        logs = logs.astype("float64" if z.size <= _FEW_NUMBERS else "float32")
    return logs


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
        mapped, source = self.logit_map, self.temperature_from
        for name, allowed in (
            ("logit_map", [*MAPS]),
            ("temperature_from", [*SOURCES]),
            ("prior", ["evidence", None]),
        ):
            value = getattr(self, name)
            check_argument(name, value, value in allowed, f"one of {allowed}")
        check_argument("strength", self.strength, self.strength > 0, "> 0")
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
            fitted = TemperedRows(
                *(z, self.temperature_from, base),
                has_prior=self.prior is not None,
            )
            self._set_parameters(fitted, bases)

    def _set_parameters(
        self, fitted: TemperedRows, bases: dict[str, FeatureBasis]
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
        return softmax.map_logits(for_map(z, p["floor"]), p, features)


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
