"""Base class of the recalibrators of classifiers."""

import copy
import time
from collections.abc import Callable
from typing import Any, Self

import keras
import numpy as np
from scipy.special import softmax

from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.checks import as_weight, check_argument
from keras_likelihood.metrics.functions import binned_error
from keras_likelihood.reading.graphs import ClassifierGraph
from keras_likelihood.reading.targets import (
    as_features,
    as_labels,
    as_logits,
    check_fitted,
)
from keras_likelihood.recalibration.inputs import Rows
from keras_likelihood.recalibration.softmax import softmax_moments


class ClassifierRecalibrator:
    """Base class of the recalibrators of classifiers.

    A subclass fits its parameters to logits (`_fit`) and maps logits
    `(rows, classes)`, which are arrays or symbolic tensors (`_map`).

    Attributes set by fitting:
        parameters_: dict of the fitted values.
        report_: dict of NLL, ECE and accuracy on the calibration data,
            `_before` and `_after`, the number of `examples`, and `seconds`.
        questions_: for multi-label outputs, one fitted recalibrator per
            column. Otherwise `None`.
        model: a copy with calibrated probabilities (after `fit`), whose old
            layers are not trainable.

    ```python
    fitted = GlobalScaling().fit("model.keras", x_val, y_val)
    fitted.model.save("calibrated.keras")
    ```
    """

    uses_features: bool | str = False
    """Whether fitting needs features in addition to the logits. With
    `"optional"`, features are used if there are any.
    """
    parameters_: dict[str, Any]
    report_: dict[str, Any]
    questions_: "list[ClassifierRecalibrator] | None" = None
    _floor: float | None = None
    _columns: dict[str, int | None] = {"logits": None, "features": None}
    _fit: Callable[[Rows], None]
    _map: Callable[[Any, Any], Any]

    def fit(
        self,
        model: Any,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        from_logits: bool | None = None,
        multi_label: bool | None = None,
        features: str | None = None,
        batch_size: int = 32,
    ) -> Self:
        """Recalibrates a trained Keras model; sets `model` and returns self.

        Args:
            model: a `keras.Model`, or the path of a `.keras` file. The learned
                temperature of a `LikelihoodModel` is applied.
            x: inputs as for `model.predict`, or an iterable of `(x, y)` or
                `(x, y, sample_weight)` batches such as a `tf.data.Dataset`.
            y: class numbers or one-hot labels. Leave them out for batches.
            sample_weight: one weight for each example, or `None`.
            from_logits: whether the model returns logits. If `None` (default),
                it is inferred from the loss and the last layer.
            multi_label: whether the columns of the output are independent
                binary labels, with `y` 0 or 1 in the shape of the output. If
                `None` (default), it is True for several sigmoid outputs.
            features: name of the layer whose output is used as features.
                Defaults to the input of the layer of the logits.
            batch_size: the batch size for prediction.
        """
        graph = ClassifierGraph(
            model,
            x,
            self.uses_features,
            from_logits=from_logits,
            multi_label=multi_label,
            features=features,
            batched=y is None,
        )
        data = x, y, sample_weight, batch_size
        logits, columns, y, weight = graph.outputs(*data)
        options = {"sample_weight": weight, "multi_label": graph.multi_label}
        self.fit_arrays(logits, y, columns, **options)
        self.model = graph.calibrated_model(self.maps)
        return self

    def attach(
        self, model: Any, *, from_logits: bool | None = None, **options: Any
    ) -> keras.Model:
        """Returns a Keras model that ends in a map fitted by `fit_arrays`.

        It also sets `model`. The model must be a graph. `from_logits`,
        `multi_label` and `features` are as in `fit`.
        """
        check_fitted(self, "parameters_", "attach")
        options["from_logits"] = from_logits
        used = self.uses_features and self._columns["features"] is not None
        graph = ClassifierGraph(model, None, used, **options)
        self._check_columns(
            graph.tensors["logits"], graph.tensors.get("features")
        )
        self.model = graph.calibrated_model(self.maps)
        return self.model

    @property
    def maps(self) -> list[Callable[[Tensor, Tensor | None], Tensor]]:
        """Map of symbolic logits and features, or one for each label."""
        return [each._map for each in self.questions_ or [self]]

    def fit_arrays(
        self,
        logits: Any,
        y: Any,
        features: Any = None,
        *,
        from_logits: bool = True,
        multi_label: bool = False,
        sample_weight: Any = None,
    ) -> Self:
        """Recalibrates from a classifier's outputs; returns self.

        Args:
            logits: `(n, ..., classes)`, or `(n,)` or `(n, ..., 1)` for binary
                labels, or `(n, ..., labels)` with `multi_label`.
            y: class numbers `(n, ...)` or one-hot labels. With `multi_label`,
                0 or 1 in the shape of `logits`.
            features: `(n, ..., columns)`, for methods that use them.
            from_logits: `False` if `logits` are probabilities.
            multi_label: whether columns are independent binary labels.
                Defaults to False.
            sample_weight: weights `>= 0`, `(n,)` or `(n, ...)`. Rows of
                weight 0 are ignored.
        """
        started = time.perf_counter()
        if multi_label:
            self._fit_questions(logits, y, features, from_logits, sample_weight)
            self.report_["seconds"] = time.perf_counter() - started
            return self
        self.questions_ = None
        logits, shape, self._floor = as_logits(logits, from_logits)
        weight = as_weight(sample_weight, shape[:-1])
        labels = as_labels(y, shape, weight)
        columns = self._rows_of_features(features, shape[:-1])
        count = None if columns is None else columns.shape[1]
        self._columns = {"logits": shape[-1], "features": count}
        given = {} if columns is None else {"features": columns}
        rows = Rows(logits, labels, weight, given)
        if not weight.all():
            rows = rows.part(weight > 0)
        self.report_ = {"examples": len(rows.labels)}
        self._fit(rows)
        calibrated = self._map(rows.logits, rows.features)
        for when, z in (("before", rows.logits), ("after", calibrated)):
            values = scores(z, rows.labels, rows.weight)
            self.report_ |= {f"{k}_{when}": v for k, v in values.items()}
        self.report_["seconds"] = time.perf_counter() - started
        return self

    def calibrate(
        self, logits: Any, features: Any = None, *, from_logits: bool = True
    ) -> Array:
        """Returns calibrated probabilities, in the shape of `logits`.

        Arguments are as in `fit_arrays`.
        """
        check_fitted(self, "parameters_", "calibrate")
        logits = np.asarray(logits)
        if logits.ndim == 1:
            options: Any = {"from_logits": from_logits}
            return self.calibrate(logits[:, None], features, **options)[:, 0]
        columns = self._rows_of_features(features, logits.shape[:-1])
        self._check_columns(logits, columns)
        if self.questions_ is not None:
            parts = np.split(logits, logits.shape[-1], axis=-1)
            answers = [
                question.calibrate(z, features, from_logits=from_logits)
                for question, z in zip(self.questions_, parts, strict=True)
            ]
            return np.concatenate(answers, axis=-1)
        rows, shape, _ = as_logits(logits, from_logits, self._floor)
        p = softmax(self._map(rows, columns), axis=1)
        return (p[:, 1:] if shape[-1] == 1 else p).reshape(shape)

    def _fit_questions(
        self, logits: Any, y: Any, features: Any, from_logits: bool, weight: Any
    ) -> None:
        logits, y = np.asarray(logits), np.asarray(y)
        fits = logits.ndim >= 2 and y.shape == logits.shape
        allowed = f"0 or 1 in the shape of the output, {logits.shape}"
        check_argument("y", f"shape {y.shape}", fits, allowed)
        options = {"from_logits": from_logits, "sample_weight": weight}
        self.questions_ = [
            copy.copy(self).fit_arrays(
                logits[..., c : c + 1], y[..., c], features, **options
            )
            for c in range(logits.shape[-1])
        ]
        columns = self.questions_[0]._columns
        self._columns = {**columns, "logits": logits.shape[-1]}
        parameters = [question.parameters_ for question in self.questions_]
        self.parameters_ = {"questions": parameters}
        self.report_ = {
            key: float(np.mean([q.report_[key] for q in self.questions_]))
            for key, value in self.questions_[0].report_.items()
            if np.isscalar(value)
        }

    def _rows_of_features(
        self, features: Any, leading: tuple[int, ...]
    ) -> Array | None:
        if self.uses_features and features is not None:
            return as_features(features, leading)
        fits, name = self.uses_features is not True, type(self).__name__
        check_argument("features", None, fits, f"an array for {name}")
        return None

    def _check_columns(self, *inputs: Any) -> None:
        for (name, fitted), x in zip(
            self._columns.items(), inputs, strict=True
        ):
            count = None if x is None else x.shape[-1]
            known = fitted is not None or name == "features"
            if known and count != fitted:
                raise ValueError(
                    f"`{name}` must have {fitted or 'no'} columns, as in "
                    f"`fit`. Received: {count or 'none'}"
                )


def scores(logits: Array, labels: Array, weight: Array) -> dict[str, float]:
    """NLL, ECE (15 equal-width bins) and accuracy of logits."""
    at = softmax_moments(logits, labels, 1.0)
    return {
        "nll": float(np.average(at.nll, weights=weight)),
        "ece": binned_error(at.right, at.confidence, weight),
        "accuracy": float(np.average(at.right, weights=weight)),
    }
