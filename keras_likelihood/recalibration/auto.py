"""The recalibrator that cross-validation prefers."""

import numpy as np

from keras_likelihood.recalibration.classifier import ClassifierRecalibrator
from keras_likelihood.recalibration.global_scaling import GlobalScaling
from keras_likelihood.recalibration.joint_scaling import JointScaling
from keras_likelihood.recalibration.moments import softmax_moments

_MOST_CLASSES = 200


class Auto(ClassifierRecalibrator):
    """Chooses a recalibrator by cross-validated NLL.

    First the strength of a matrix map, along (0.1, 0.3, 1, 3); then among
    GlobalScaling, a temperature predicted from the logits or the features, a
    vector or matrix map, and each map joined with each temperature. Beyond
    200 classes matrices are left out.

    Args:
        keep_accuracy: choose among methods that cannot change the predicted
            classes. Defaults to False.
        folds: number of folds, `>= 2`. Defaults to 3.
        seed: of the folds. Defaults to 0.

    Attributes set by fitting:
        chosen_: the fitted recalibrator.
        cross_validated_nll_: dict of names to the NLL of each candidate.

    >>> auto = Auto().fit_arrays(logits, y, features)
    >>> auto.chosen_, auto.cross_validated_nll_
    """

    keeps_accuracy = False
    uses_features = "optional"

    def __init__(
        self, *, keep_accuracy: bool = False, folds: int = 3, seed: int = 0
    ):
        if folds < 2:
            raise ValueError(f"`folds` must be >= 2. Received: {folds}")
        self.keep_accuracy = keep_accuracy
        self.keeps_accuracy = keep_accuracy
        self.folds = folds
        self.seed = seed

    def _fit(self, logits, labels, features, weight):
        folds = self._folds(labels)
        self.cross_validated_nll_ = {}

        def validate(name, make):
            losses = np.empty(len(labels))
            for held in folds:
                kept = np.setdiff1d(np.arange(len(labels)), held)
                candidate = make()
                candidate._fit(*_take(kept, logits, labels, features, weight))
                z, y, x, _ = _take(held, logits, labels, features, weight)
                losses[held] = softmax_moments(
                    candidate._apply(z, x), y, 1.0
                ).nll
            nll = float(np.average(losses, weights=weight))
            self.cross_validated_nll_[name] = nll
            return nll

        candidates = self._candidates(logits.shape[1], features, validate)
        for name, make in candidates.items():
            if name not in self.cross_validated_nll_:
                validate(name, make)
        scores = self.cross_validated_nll_
        best = min(candidates, key=scores.get)
        self.chosen_ = candidates[best]()
        self.chosen_._fit(logits, labels, features, weight)
        self.parameters_ = {"method": best, **self.chosen_.parameters_}

    def _candidates(self, classes, features, validate):
        sources = ["logits"] + ([] if features is None else ["features"])
        candidates = {"GlobalScaling": GlobalScaling}
        maps = [(None, 1.0)]
        if not self.keep_accuracy:
            maps.append(("vector", 1.0))
            if classes <= _MOST_CLASSES:
                maps.append(("matrix", _best_strength(validate)))
        for kind, strength in maps:
            for source in [None, *sources]:
                if kind or source:
                    candidates[_name(kind, source, strength)] = _maker(
                        kind, source, strength
                    )
        return candidates

    def _folds(self, labels):
        if len(labels) < self.folds:
            raise ValueError(
                f"{self.folds} folds need as many examples. "
                f"Received: {len(labels)}"
            )
        random = np.random.default_rng(self.seed)
        order = random.permutation(len(labels))
        # Sorted by class, so that every fold sees the rare ones.
        order = order[np.argsort(labels[order], kind="stable")]
        return [np.sort(order[i :: self.folds]) for i in range(self.folds)]

    def _apply(self, logits, features):
        return self.chosen_._apply(logits, features)

    def _graph(self, logits, features):
        return self.chosen_._graph(logits, features)


def _best_strength(validate):
    """Walks from strong to weak while the NLL falls."""
    best, least = 3.0, np.inf
    for strength in (3.0, 1.0, 0.3, 0.1):
        nll = validate(
            _name("matrix", None, strength), _maker("matrix", None, strength)
        )
        if nll > least:
            break
        best, least = strength, nll
    return best


def _maker(kind, source, strength):
    return lambda: JointScaling(map=kind, temperature=source, strength=strength)


def _name(kind, source, strength):
    parts = []
    if kind:
        parts.append(f"{kind.capitalize()}Scaling({strength:g})")
    if source:
        linear = {"logits": "LinearScaling", "features": "LinearFeatureScaling"}
        parts.append(linear[source])
    return " + ".join(parts)


def _take(index, logits, labels, features, weight):
    return (
        logits[index],
        labels[index],
        None if features is None else features[index],
        None if weight is None else weight[index],
    )
