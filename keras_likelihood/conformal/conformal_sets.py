"""Prediction sets with guaranteed coverage, for any classifier."""

import dataclasses
import time
from typing import Any, Self

import keras
import numpy as np

from keras_likelihood.backend.operations import library_of
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Array
from keras_likelihood.conformal.scores import (
    CalibrationScores,
    refuse_weights,
    scores_of,
)
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.reading.graphs import ClassifierGraph
from keras_likelihood.reading.targets import as_labels, as_logits, check_fitted

SCORES = ("aps", "raps", "lac")

_ROUNDED = 1e-5
"""Maximum relative rounding error of a probability on any backend."""


def class_scores(p: Any, score: str, slack: float = 0.0) -> Any:
    """Scores of all classes. A larger score is a worse fit.

        aps:  probability of the classes likelier than c, minus 1
        raps: aps + 0.01 * max(0, rank of c - 5)
        lac:  -log(probability of c)

    Sums run from the least probable class up, because the largest probability
    may be 1. Scores are reduced by `slack`, a relative rounding error of `p`.
    """
    xp, is_numpy = library_of(p), isinstance(p, np.ndarray)
    if score == "lac":
        tiny = float(np.finfo("float32").tiny)
        return -xp.log(xp.maximum(p, tiny)) - slack
    order = xp.argsort(-p, axis=-1, **({"kind": "stable"} if is_numpy else {}))
    falling = xp.flip(xp.take_along_axis(p, order, axis=-1), axis=-1)
    rest = xp.flip(xp.cumsum(falling, axis=-1), axis=-1)
    beyond = np.maximum(np.arange(1, p.shape[-1] + 1) - 5, 0)
    penalties = (1 - slack) * 0.01 * beyond * (score == "raps")
    scores = penalties.astype(keras.backend.standardize_dtype(p.dtype))
    scores = xp.subtract(scores, (1 + slack) * rest)
    return xp.take_along_axis(scores, xp.argsort(order, axis=-1), axis=-1)


def prediction_sets(
    p: Any, scores: CalibrationScores, coverage: float, groups: Any = None
) -> Any:
    """Prediction sets of a coverage, booleans `(n, ..., classes)`.

    The probabilities, an array or a tensor, may be of class 1 only. Scores are
    reduced by the rounding error of `p`, so equal inputs get equal sets.
    """
    xp, settings = library_of(p), scores.settings
    p = p[:, None] if len(p.shape) == 1 else p
    p = xp.concatenate([1 - p, p], axis=-1) if p.shape[-1] == 1 else p
    count = p.shape[0]
    if settings["by_class"]:
        received, allowed = type(groups).__name__, "None, because the groups of"
        allowed += " this calibration are the classes"
        check_argument("groups", received, groups is None, allowed)
        groups, count = np.arange(p.shape[-1]), p.shape[-1]
    bound = scores.threshold(coverage, groups, count)
    bound = bound.astype(keras.backend.standardize_dtype(p.dtype))
    bound = bound if settings["by_class"] else bound[..., None]
    each = class_scores(p, settings["score"], _ROUNDED)
    most = xp.argmax(p, axis=-1)[..., None]
    first = xp.equal(xp.arange(p.shape[-1], dtype=most.dtype), most)
    return xp.logical_or(xp.less_equal(each, bound), first)


@serializable
class ConformalClassifier(keras.Model):
    """A Keras model with calibrated prediction sets.

    `kl.conformal.ConformalSets` creates it. Its outputs are probabilities.

    ```python
    model = keras.saving.load_model("conformal.keras")
    sets = model.predict_set(x, 0.9)  # booleans (n, classes)
    ```
    """

    def predict_set(
        self,
        x: Any,
        coverage: float = 0.9,
        *,
        groups: Any = None,
        **kwargs: Any,
    ) -> Array:
        """Sets that contain the true class with the given probability.

        They are booleans `(n, ..., classes)`, with two classes for binary
        targets.

        Args:
            x: inputs `(n, ...)`, as for `predict`.
            coverage: in (0, 1). Defaults to 0.9.
            groups: group labels `(n,)`, if the model was calibrated by groups.
            **kwargs: passed to `predict`.
        """
        p = np.asarray(self.predict(x, **{"verbose": 0, **kwargs}), "float64")
        return prediction_sets(p, scores_of(self), coverage, groups)

    def at_coverage(self, coverage: float = 0.9) -> keras.Model:
        """A Keras model with the outputs `probabilities` and `set`.

        Sets are booleans `(n, ..., classes)`. The calibration is part of the
        graph and is exported with it.
        """
        sets = prediction_sets(self.output, scores_of(self), coverage)
        outputs = {"probabilities": self.output, "set": sets}
        return keras.Model(self.input, outputs)


@dataclasses.dataclass(kw_only=True, eq=False)
class ConformalSets:
    """Calibrates prediction sets with guaranteed coverage.

        set(coverage) = {c: score_c <= q},
            q = the ceil((n + 1) coverage)-th smallest score of true classes

    Three scores are available: adaptive prediction sets (`"aps"`, Romano et
    al. 2020), regularised ones (`"raps"`, Angelopoulos et al. 2021), which
    contain fewer unlikely classes, and least ambiguous ones (`"lac"`, Sadinle
    et al. 2019), which are the smallest on average but too small for hard
    examples. No set is empty: all contain the most probable class.

    A set then contains the class of a new example with a probability of at
    least `coverage`, on average over calibration sets and examples, and with
    `groups` within every group or class. Calibration examples and new examples
    must be exchangeable; see `ConformalIntervals`. Each position of a dense
    prediction has its own threshold.

    Args:
        score: `"aps"` (default), `"raps"` or `"lac"`.

    Attributes set by fitting:
        scores_: a `CalibrationScores` with the sorted scores in `values`.
        report_: dict of `examples`, `accuracy` and `seconds`.
        model: a `ConformalClassifier` (after `fit`), which saves as `.keras`.

    ```python
    fitted = ConformalSets().fit("model.keras", x_val, y_val)
    fitted.model.save("conformal.keras")
    sets = fitted.predict_set(x, 0.9)
    ```
    """

    score: str = "aps"

    def __post_init__(self) -> None:
        fits, allowed = self.score in SCORES, f"one of {SCORES}"
        check_argument("score", self.score, fits, allowed)

    def fit(
        self,
        model: Any,
        x: Any,
        y: Any = None,
        *,
        groups: Any = None,
        from_logits: bool | None = None,
        batch_size: int = 32,
    ) -> Self:
        """Calibrates a Keras classifier; sets `model` and returns self.

        Args:
            model, x, y, from_logits, batch_size: as in `GlobalScaling.fit`. The
                data must not have been used for training or recalibration.
                Weights raise an error, because they have no meaning for the
                guarantee.
            groups: label of every example, `(n,)` whole numbers or strings,
                for a guarantee within every group. `"class"` gives a guarantee
                within every class. Defaults to no groups.
        """
        graph = ClassifierGraph(
            model, x, batched=y is None, from_logits=from_logits
        )
        fits, allowed = not graph.multi_label, "of mutually exclusive classes"
        check_argument("model", "multi-label outputs", fits, allowed)
        logits, _, y, weight = graph.outputs(x, y, None, batch_size)
        refuse_weights(weight)
        self.fit_arrays(logits, y, groups=groups)
        self.model = graph.calibrated_model(
            [lambda z, _: z], self.scores_.stored_beside, ConformalClassifier
        )
        return self

    def fit_arrays(
        self,
        logits: Any,
        y: Any,
        *,
        from_logits: bool = True,
        groups: Any = None,
    ) -> Self:
        """Calibrates sets from a classifier's outputs; returns self.

        Args:
            logits: `(n, ..., classes)`, or `(n,)` or `(n, ..., 1)` for binary
                labels.
            y: class numbers `(n, ...)` or one-hot labels.
            from_logits: `False` if `logits` are probabilities.
            groups: as in `fit`.
        """
        started = time.perf_counter()
        p, shape = _probabilities(logits, from_logits)
        labels = as_labels(y, shape).reshape(shape[:-1])
        by_class = isinstance(groups, str) and groups == "class"
        groups = labels if by_class else groups
        scores = class_scores(p, self.score)
        true = np.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
        self.scores_ = CalibrationScores.of(
            true, groups, score=self.score, by_class=by_class
        )
        self.report_ = {
            "examples": len(labels),
            "accuracy": float(np.mean(p.argmax(axis=-1) == labels)),
            "seconds": time.perf_counter() - started,
        }
        # The model of an earlier fit is outdated.
        self.__dict__.pop("model", None)
        return self

    def predict_set(
        self, x: Any, coverage: float = 0.9, *, groups: Any = None
    ) -> Array:
        """Sets of new inputs; see `ConformalClassifier.predict_set`."""
        # After `fit_arrays`, users call `predict_set_arrays`.
        check_fitted(self, "model", "predict_set")
        return self.model.predict_set(x, coverage, groups=groups)

    def predict_set_arrays(
        self,
        logits: Any,
        coverage: float = 0.9,
        *,
        from_logits: bool = True,
        groups: Any = None,
    ) -> Array:
        """Sets from a classifier's outputs, booleans `(n, ..., classes)`.

        Args:
            logits, from_logits: as in `fit_arrays`.
            coverage, groups: as in `predict_set`.
        """
        check_fitted(self, "scores_", "predict_set_arrays")
        p, _ = _probabilities(logits, from_logits)
        return prediction_sets(p, self.scores_, coverage, groups)


def _probabilities(
    logits: Any, from_logits: bool
) -> tuple[Array, tuple[int, ...]]:
    """Probabilities `(n, ..., classes)` and the shape of the logits."""
    rows, shape, _ = as_logits(logits, from_logits)
    p = np.exp(rows.astype("float64") - rows.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p.reshape(*shape[:-1], p.shape[1]), shape
