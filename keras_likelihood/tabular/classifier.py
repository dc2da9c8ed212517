"""Predicts a class from the columns of a table."""

import dataclasses
from typing import Any

import keras
import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets

from keras_likelihood.auditing.report import find_label_issues
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.conformal import ConformalClassifier, ConformalSets
from keras_likelihood.likelihoods import Ordinal, Softmax
from keras_likelihood.metrics.functions import negative_log_likelihood
from keras_likelihood.tabular.batches import predict_rows
from keras_likelihood.tabular.table_estimator import TableEstimator


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Classifier(ClassifierMixin, TableEstimator):
    """Predicts class probabilities from the columns of a table.

    ```python
    model = kl.tabular.Classifier().fit(X, y)
    model.predict_proba(X_new)
    model.predict_set(X_new, 0.9)  # the possible classes
    ```

    The networks are trained as in `Regressor`. Out-of-fold probabilities
    calibrate the prediction sets and reveal labels that are probably wrong.

    Args:
        order: the classes from the lowest to the highest, if they have an
            order. The likelihood is then ordinal if there are at least three
            classes. It is not needed if `y` is an ordered pandas
            `Categorical`. Defaults to `None`.
        label_noise: whether many labels are wrong. Then the networks are
            trained with `kl.losses.NoisyLabelsLoss` (Liu et al. 2020), which
            memorizes few wrong labels. Defaults to False.
        members, epochs, random_state, verbose: as in `Regressor`.

    Attributes:
        model_, columns_: as in `Regressor`.
        classes_: the classes, in the order of the probabilities.
        scores_: scores on held-out rows: `NLL` and `accuracy`.
        doubtful_labels_: rows whose label is probably wrong (Northcutt et al.
            2021), least probable label first.
    """

    order: list[Any] | None = None
    label_noise: bool = False

    def _checked_targets(self, y: Array, order: Any) -> Array:
        if y.dtype.kind == "f":
            check_array(y, ensure_2d=False, input_name="y")
        kinds = {type(label).__name__ for label in y.tolist()}
        if len(kinds) > 1:
            raise ValueError(
                "Labels must be of one type, without missing values. "
                f"Received: {', '.join(sorted(kinds))}"
            )
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                "A classifier needs at least two classes. Received: one class, "
                f"{str(self.classes_[0])!r}, in every row"
            )
        y = np.searchsorted(self.classes_, y)
        order = order if self.order is None else list(self.order)
        self.likelihood_: Any = Softmax
        if order is None:
            return y
        if unknown := [v for v in self.classes_.tolist() if v not in order]:
            raise ValueError(
                "`order` must list all classes, from the lowest to the "
                f"highest. Received: {order}, without {unknown[0]!r}"
            )
        places = np.array([order.index(v) for v in self.classes_.tolist()])
        self.classes_ = self.classes_[places.argsort()]
        if len(self.classes_) > 2:
            self.likelihood_ = Ordinal(len(self.classes_))
        return places.argsort().argsort()[y]

    @staticmethod
    def _evaluate(distribution: Any, y: Tensor) -> dict[str, Any]:
        return {"probabilities": distribution.class_probabilities()}

    def _judge(self, held_out: Any, y: Array) -> dict[str, float]:
        p = held_out[0]["probabilities"].astype("float64")
        issues = find_label_issues(y, p)
        found = np.flatnonzero(issues["is_label_issue"])
        found = found[np.argsort(issues["label_quality"][found])]
        self.held_out_ |= {"probabilities": p, "issues": found}
        accuracy = float(np.mean(p.argmax(axis=1) == y))
        return {"NLL": negative_log_likelihood(y, p), "accuracy": accuracy}

    @property
    def doubtful_labels_(self) -> Array:
        return self.held_out_["row"][self.held_out_["issues"]]

    def _calibrated(
        self, inputs: Any, outputs: Any, held_out: Any, y: Array, last: Any
    ) -> Any:
        p = self.held_out_["probabilities"]
        conformal = ConformalSets().fit_arrays(p, y, from_logits=False)
        softmax = keras.layers.Activation("softmax", name="calibrated")
        p = conformal.scores_.stored_beside(softmax(outputs[0]))
        return ConformalClassifier(inputs, p)

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Probability of each class, `(n, classes)`."""
        x = self.encode(X)
        p = predict_rows(self.model_, x).astype("float64")
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The most probable class of each row, `(n,)`."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(axis=1)]

    def predict_set(
        self,
        X: Any,  # noqa: N803
        coverage: float = 0.9,
    ) -> Array:
        """Calibrated prediction sets, bool `(n, classes)`.

        Args:
            X: rows, as in `fit`.
            coverage: requested share of labels in their sets, in (0, 1).
                Defaults to 0.9.
        """
        return self.model.predict_set(self.encode(X), coverage)
