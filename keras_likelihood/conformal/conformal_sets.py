"""Prediction sets with guaranteed coverage, for any classifier."""

import dataclasses
import time
from typing import Any, ClassVar, Self

import numpy as np

from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.conformal import prediction as conformal
from keras_likelihood.conformal import scores as conformal_scores
from keras_likelihood.conformal.models import ConformalClassifier
from keras_likelihood.conformal.prediction import SCORES
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.reading.graphs import ClassifierGraph
from keras_likelihood.reading.targets import as_labels, as_logits, check_fitted


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
    `groups` within every group or class. The only assumption is that
    calibration examples and new examples are exchangeable. It fails if the
    data drift, or if the calibration examples were used for training or were
    selected. Each position of a dense prediction has its own threshold.

    Args:
        score: `"aps"` (default), `"raps"` or `"lac"`.

    Attributes set by fitting:
        scores_: a `CalibrationScores`, whose `values` are the sorted scores of
            the calibration examples.
        report_: dict of `examples`, `accuracy` and `seconds`.
        model: a `ConformalClassifier` (after `fit`), which saves as `.keras`.

    ```python
    fitted = ConformalSets().fit("model.keras", x_val, y_val)
    fitted.model.save("conformal.keras")
    sets = fitted.predict_set(x, 0.9)
    ```
    """

    questions_: ClassVar[None] = None
    model_class: ClassVar = ConformalClassifier

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
        if graph.multi_label:
            raise ValueError(
                "Prediction sets need mutually exclusive classes. "
                "Received: a model with multi-label outputs"
            )
        logits, _, y, weight = graph.outputs(x, y, None, batch_size)
        conformal_scores.refuse_weights(weight)
        self.fit_arrays(logits, y, groups=groups)
        self.model = graph.calibrated_model(self)
        return self

    def extend(self, model: Any, *, from_logits: bool | None = None) -> Self:
        """Adds the calibration to a Keras classifier, after `fit_arrays`.

        Use it with out-of-fold probabilities, which no single model predicts.
        It sets `model` and returns self.
        """
        graph = ClassifierGraph(model, from_logits=from_logits)
        self.model = graph.calibrated_model(self)
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
        self.by_class_ = isinstance(groups, str) and groups == "class"
        if self.by_class_:
            groups = labels
        scores = conformal.class_scores(p, self.score)
        true = np.take_along_axis(scores, labels[..., None], axis=-1)[..., 0]
        self.scores_ = conformal_scores.CalibrationScores.of(true, groups)
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
        return conformal.prediction_sets(
            p, self.scores_, self._settings(), coverage, groups
        )

    def _settings(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "by_class": self.by_class_}

    def _graph(self, logits: Tensor, features: Tensor | None) -> Tensor:
        return logits

    def with_scores(self, output: Tensor) -> Tensor:
        """Symbolic probabilities, from a layer that stores the calibration."""
        keep = conformal_scores.ConformalScores.holding(
            self.scores_, self._settings(), name="with_scores"
        )
        return keep(output)

    _finish = with_scores


def _probabilities(
    logits: Any, from_logits: bool
) -> tuple[Array, tuple[int, ...]]:
    """Probabilities `(n, ..., classes)` and the shape of the logits."""
    rows, shape, _ = as_logits(logits, from_logits)
    p = np.exp(rows.astype("float64") - rows.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p.reshape(*shape[:-1], p.shape[1]), shape
