"""A weighted mean of recalibrators, chosen by cross-validation."""

from typing import Any

import numpy as np
from scipy.special import softmax as softmax_of

from keras_likelihood.backend.operations import library_of
from keras_likelihood.backend.threads import one_blas_thread
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.recalibration.classifier import (
    ClassifierRecalibrator,
    scores,
)
from keras_likelihood.recalibration.inputs import (
    FOLDS,
    SOURCES,
    Rows,
    log_softmax,
    random_folds,
    raw_columns,
    standardised,
)
from keras_likelihood.recalibration.joint_scaling import (
    GlobalScaling,
    JointScaling,
    TemperedRows,
    scaled,
)
from keras_likelihood.recalibration.softmax import (
    SPREAD,
    softmax_moments,
    solve_temperature,
)

_MOST_CLASSES = 200
_MOST_NUMBERS = 2**23
_MAPS = (("vector", 1.0), *(("matrix", 1.0), ("matrix", 0.1), ("matrix", 0.01)))
_LEAST_WEIGHT = 0.003
_FEW_ROWS = 500
"""Fewer than a third as many rows have up to ten folds."""
EVIDENCE = 0.2
"""Power of the likelihood of held-out rows in the prior of the weights."""
CREDIT = 100.0
"""Advantage of the model as it is, in nats times rows."""
PRIOR_ROWS = 50.0
"""Rows for which the prior of the weights counts."""


class AutoScaling(ClassifierRecalibrator):
    """Combines recalibrators with weights from cross-validation.

        p = sum_c w_c p_c,    w_c >= 0,    sum_c w_c = 1

    The candidates are the model as it is, the uniform distribution, one
    temperature, and a temperature that is predicted from the
    log-probabilities, the sorted log-probabilities and the features. Each of
    the two temperatures may be followed by a vector map, or by matrix maps with
    priors of decreasing strength (see `JointScaling`). A map of the features is
    a candidate too. With more than 200 classes the matrices and the map of the
    features are left out.

    The weights maximise the likelihood of rows held out in three to ten folds
    (stacking, Wolpert 1992, by EM). Their prior, which counts for 50 rows, is
    `softmax(0.2 l_c)` of the held-out log-likelihoods `l_c` (pseudo-Bayesian
    model averaging, Yao et al. 2018). The model as it is has an advantage of
    100 / n nats, and log T has a Cauchy prior around 0 with a spread of 0.3, so
    a few rows change the probabilities only if they clearly contradict them.
    These numbers were chosen on the development tables of
    `benchmarks/arena.py`. Before a map, probabilities are mixed with a share of
    1 / (n + 1) of the uniform distribution. The candidates are then fitted to
    all rows.

    Args:
        keep_accuracy: whether to use only candidates that cannot change the
            predicted classes. Defaults to False.
        seed: the random seed of the folds. Defaults to 0.

    Attributes set by fitting:
        weights_: dict of the candidates' names to their weights.
        cross_validated_nll_: dict of names to the NLL on held-out rows.

    >>> random = np.random.default_rng(0)
    >>> logits = 5 * random.normal(size=(500, 3))
    >>> y = (logits / 2 + random.gumbel(size=logits.shape)).argmax(axis=1)
    >>> auto = kl.recalibration.AutoScaling().fit_arrays(logits, y)
    >>> auto.report_["nll_after"] < auto.report_["nll_before"]
    True
    """

    uses_features = "optional"

    def __init__(self, *, keep_accuracy: bool = False, seed: int = 0) -> None:
        self.keep_accuracy = keep_accuracy
        self.seed = seed

    def _fit(self, rows: Rows) -> None:
        # Many small products take twice as long on two threads.
        with one_blas_thread():
            self._fit_pool(rows)
        self.report_["weights"] = self.weights_

    def _fit_pool(self, rows: Rows) -> None:
        logits, labels, weight = rows.logits, rows.labels, rows.weight
        base = solve_temperature(rows, SPREAD)
        z = rows.with_logits(scaled(logits, base))
        raw = raw_columns(SOURCES["all"], z.logits, rows.features)
        bases, z.columns = standardised(raw, weight)
        sample = np.arange(0, len(labels), max(1, logits.size // _MOST_NUMBERS))
        used = rows.part(sample)
        # A third of a few rows would be missed.
        count = int(np.clip(_FEW_ROWS // len(sample), FOLDS, 10))
        folds = random_folds(used.logits, used.features, count, self.seed)
        candidates = self._candidates(logits.shape[1], rows.features)
        fixed = {"Unchanged": 1.0, "Uniform": np.inf}
        losses = {
            name: softmax_moments(logits, labels, 1 / temperature).nll
            for name, temperature in fixed.items()
        }
        tempered = {}
        for source in (None, "all"):
            whole = tempered[source] = TemperedRows(
                *(z, source, base), floor=1 / (len(labels) + 1)
            )
            same = {
                name: c
                for name, c in candidates.items()
                if c.temperature_from == source
            }
            losses |= {name: np.empty(len(labels)) for name in same}
            for held_out in (sample[index] for index in folds):
                part = whole.part(np.setdiff1d(sample, held_out))
                rest = z.part(held_out)
                for name, c in same.items():
                    loss = part.losses(c.logit_map, c.strength, rest)
                    losses[name][held_out] = loss
        self.cross_validated_nll_ = {
            name: float(np.average(loss[sample], weights=weight[sample]))
            for name, loss in losses.items()
        }
        table = np.stack([*losses.values()], axis=1)[sample]
        shares = pool_weights(table, weight[sample])
        shares = np.where(shares < _LEAST_WEIGHT, 0.0, shares)
        shares = shares / shares.sum()
        order = np.argsort(-shares, kind="stable")[: np.count_nonzero(shares)]
        names = [*losses]
        self.weights_ = {names[i]: float(shares[i]) for i in order}
        for name in self.weights_.keys() - fixed.keys():
            whole = tempered[candidates[name].temperature_from]
            candidates[name]._set_parameters(whole, bases)
        for name, temperature in fixed.items():
            candidates[name] = GlobalScaling()
            candidates[name].parameters_ = {"temperature": temperature}
        self.members_ = [candidates[name] for name in self.weights_]
        before = scores(logits, labels, weight)["nll"]
        pooled = scores(self._map(logits, rows.features), labels, weight)
        if pooled["nll"] > before:
            self.weights_ = {"Unchanged": 1.0}
            self.members_ = [candidates["Unchanged"]]
        shown = [(n, w) for n, w in self.weights_.items() if w >= 0.005]
        parts = [f"{w:.2f} {name}" for name, w in shown]
        self.parameters_ = {
            "method": " + ".join(parts),
            "weights": self.weights_,
            "members": [member.parameters_ for member in self.members_],
        }

    def _candidates(
        self, classes: int, features: Array | None
    ) -> dict[str, JointScaling]:
        few = classes <= _MOST_CLASSES and not self.keep_accuracy
        maps: Any = [] if self.keep_accuracy else _MAPS
        named = {}
        for source, name in (
            (None, "GlobalScaling"),
            ("all", "PredictedTemperature"),
        ):
            options: Any = {"temperature_from": source}
            named[name] = JointScaling(**options)
            for kind, size in (m for m in maps if few or m[0] != "matrix"):
                second = f"{kind.title()}Scaling({size:g})"
                options |= {"logit_map": kind, "strength": size}
                scaling = JointScaling(**options)
                named[f"{name}, {second}" if source else second] = scaling
        if features is not None and few:
            named["FeatureMap"] = JointScaling(logit_map="features")
        return named

    def _map(self, logits: Tensor, features: Tensor | None) -> Tensor:
        pairs = zip(self.members_, self.weights_.values(), strict=True)
        xp = library_of(logits)
        p = sum(
            weight * xp.exp(log_softmax(member._map(logits, features)))
            for member, weight in pairs
        )
        return xp.log(xp.maximum(p, 1e-37))


def pool_weights(losses: Array, weight: Any = 1.0) -> Array:
    """Weights of the mixture of `AutoScaling`, by EM.

    `losses` are -log p_c of every held-out row's label, `(rows, candidates)`.
    The first candidate is the model as it is.
    """
    rows, candidates = losses.shape
    likelihood = np.exp(losses.min(axis=1, keepdims=True) - losses)
    weight = np.full(rows, weight / np.mean(weight))
    logs = -EVIDENCE * (weight @ losses)
    logs[0] += CREDIT / rows
    prior = PRIOR_ROWS * softmax_of(logs)
    shares = np.full(candidates, 1 / candidates)
    for _ in range(2000):
        before = shares
        mixed = likelihood @ shares
        shares = shares * (likelihood.T @ (weight / mixed)) + prior
        shares /= weight.sum() + PRIOR_ROWS
        if np.abs(shares - before).max() < 1e-5:
            break
    return shares / shares.sum()
