"""A weighted mean of recalibrators, chosen by cross-validation."""

import numpy as np
from scipy.special import log_softmax, logsumexp

from keras_likelihood.backend.threads import one_blas_thread
from keras_likelihood.recalibration import feature_basis
from keras_likelihood.recalibration.classifier import ClassifierRecalibrator
from keras_likelihood.recalibration.graphs import submodel
from keras_likelihood.recalibration.inputs import random_folds
from keras_likelihood.recalibration.joint_scaling import JointScaling, scaled
from keras_likelihood.recalibration.softmax import solve_temperature
from keras_likelihood.recalibration.steps import PRIOR_ROWS, FittedSteps
from keras_likelihood.serving.layers import LinearPool

_MOST_CLASSES = 200
_MOST_NUMBERS = 2**23
_STRENGTHS = (1.0, 0.1, 0.01)
_LEAST_WEIGHT = 0.01


class AutoScaling(ClassifierRecalibrator):
    """Combines recalibrators with weights that minimise cross-validated NLL.

        p = sum_c w_c p_c,    w_c >= 0,    sum_c w_c = 1

    The candidates are GlobalScaling and a temperature that is predicted from
    the log-probabilities, the sorted log-probabilities and the features. Each
    of the two may be followed by a vector map, or by matrix maps of decreasing
    strength. A map of the features is a candidate too. The weights minimise
    the NLL of held-out rows (a linear pool, fitted by EM), with copies of a row
    in one fold. The candidates are then fitted to all rows. With more than 200
    classes the matrices and the map of the features are left out.

    Stacking is from Wolpert (1992). Matrix maps with strength 1 are structured
    matrix scaling (Berta, Holzmueller, Jordan and Bach, 2026).

    Args:
        keep_accuracy: whether to use only candidates that cannot change the
            predicted classes. Defaults to False.
        folds: number of folds, `>= 2`. Defaults to 3.
        seed: the random seed of the folds. Defaults to 0.

    Attributes set by fitting:
        weights_: dict of the candidates' names to their weights, also in
            `report_`.
        cross_validated_nll_: dict of names to the NLL of each candidate on
            held-out rows.

    >>> auto = AutoScaling().fit_arrays(logits, y, features)
    >>> auto.weights_, auto.cross_validated_nll_
    """

    keeps_accuracy = False
    uses_features = "optional"

    def __init__(
        self, *, keep_accuracy: bool = False, folds: int = 3, seed: int = 0
    ):
        if folds < 2:
            raise ValueError(f"`folds` must be >= 2. Received: {folds}")
        self.keep_accuracy = self.keeps_accuracy = keep_accuracy
        self.folds = folds
        self.seed = seed

    def _fit(self, logits, labels, features, weight):
        # Many small products take twice as long on two threads.
        with one_blas_thread():
            self._fit_candidates(logits, labels, features, weight)

    def _fit_candidates(self, logits, labels, features, weight):
        base = solve_temperature(logits, labels, weight, PRIOR_ROWS)
        z = scaled(logits, base)
        bases, x = feature_basis.standardised_columns(
            feature_basis.SOURCES["all"], z, features, weight
        )
        chains = self._chains(z.shape[1], features)
        whole = FittedSteps(z, labels, x, weight, chains[0][0].offset)
        every = max(1, z.size // _MOST_NUMBERS)
        more = None if features is None else features[::every]
        folds = random_folds(logits[::every], more, self.folds, self.seed)
        rows = np.arange(0, len(labels), every)
        losses = self._held_out(whole, chains, rows, folds)
        self.cross_validated_nll_ = {
            _name(scaling): float(np.average(loss, weights=weight[rows]))
            for scaling, loss in losses.items()
        }
        found = pool_weights(np.stack([*losses.values()], axis=1), weight[rows])
        found = np.where(found < _LEAST_WEIGHT, 0.0, found)
        found = found / found.sum()
        order = np.argsort(-found, kind="stable")[: np.count_nonzero(found)]
        self.members_ = [list(losses)[i] for i in order]
        names = map(_name, self.members_)
        self.weights_ = dict(zip(names, found[order].tolist(), strict=True))
        for member in self.members_:
            member._set_parameters(base, bases, *whole.weights(member))
        parts = [f"{w:.2f} {name}" for name, w in self.weights_.items()]
        self.parameters_ = {
            "method": " + ".join(parts),
            "weights": self.weights_,
            "members": [member.parameters_ for member in self.members_],
        }

    def _chains(self, classes, features):
        """Lists of candidates, each from simple to complex."""

        def chain(source, maps):
            return [
                JointScaling(temperature=source, logit_map=name, strength=size)
                for name, size in maps
            ]

        few = classes <= _MOST_CLASSES and not self.keep_accuracy
        maps = [(None, 1.0), ("vector", 1.0)]
        maps += [("matrix", size) for size in _STRENGTHS if few]
        maps = maps[: 1 if self.keep_accuracy else None]
        chains = [chain(None, maps), chain("all", maps)]
        if features is not None and few:
            chains.append(chain(None, [("features", 1.0)]))
        return chains

    def _held_out(self, whole, chains, rows, folds):
        """The held-out NLL of each candidate on every row.

        In the first fold a chain ends when a weaker prior no longer helps.
        """
        losses: dict = {}
        for number, at in enumerate(folds):
            held = rows[at]
            part = whole.part(np.delete(rows, at))
            seen = feature_basis.rows_of(whole.columns, held)
            for chain in chains:
                best = np.inf
                for candidate in chain:
                    if number and candidate not in losses:
                        break
                    loss = part.losses(
                        candidate, whole.z[held], whole.labels[held], seen
                    )
                    losses.setdefault(candidate, np.empty(len(rows)))[at] = loss
                    mean = np.average(loss, weights=whole.weight[held])
                    is_matrix = candidate.logit_map == "matrix"
                    if mean > best and is_matrix and not number:
                        break
                    best = mean
        return losses

    def _apply(self, logits, features):
        logs = [
            log_softmax(m._apply(logits, features).astype("float64"), 1)
            for m in self.members_
        ]
        return logsumexp(
            logs, 0, np.reshape([*self.weights_.values()], (-1, 1, 1))
        )

    def _details(self):
        return {"weights": self.weights_}

    def _graph(self, logits, features):
        outputs = [
            submodel(member._graph, logits, features, f"member_{number}")
            for number, member in enumerate(self.members_)
        ]
        return LinearPool(list(self.weights_.values()), name="pool")(outputs)


def _name(scaling):
    predicted = "PredictedTemperature" if scaling.temperature else ""
    if scaling.logit_map is None:
        return predicted or "GlobalScaling"
    name = {
        "vector": "VectorScaling",
        "matrix": f"MatrixScaling({scaling.strength:g})",
        "features": "FeatureMap",
    }[scaling.logit_map]
    return f"{predicted}, {name}" if predicted else name


def pool_weights(losses, weight=1.0):
    """Fits the weights of a mixture of fixed distributions by EM.

    EM minimises the mean of -log sum_c w_c p_c over the simplex, which is
    convex. `losses` are -log p_c of every row's label, `(rows, candidates)`.
    A pseudo-row is added that all candidates explain equally well. Half of it
    counts for the first candidate, the simplest.
    """
    rows, candidates = losses.shape
    likelihood = np.exp(losses.min(axis=1, keepdims=True) - losses)
    weight = np.full(rows, weight / np.mean(weight))
    prior = np.full(candidates, 0.5 / candidates)
    prior[0] += 0.5
    found = np.full(candidates, 1 / candidates)
    for _ in range(2000):
        before = found
        found = found * (likelihood.T @ (weight / (likelihood @ found))) + prior
        found /= weight.sum() + 1
        if np.abs(found - before).max() < 1e-5:
            break
    return found / found.sum()
