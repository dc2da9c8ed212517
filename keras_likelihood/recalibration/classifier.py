"""What all recalibrators of classifiers have in common."""

import time

import numpy as np
from scipy.special import log_softmax

from keras_likelihood.metrics.functions import binned_error
from keras_likelihood.recalibration import inputs
from keras_likelihood.recalibration.frozen_model import FrozenModel
from keras_likelihood.recalibration.moments import softmax_moments


class ClassifierRecalibrator:
    """Base of the recalibrators of classifiers.

    A subclass fits its parameters to logits (`_fit`), applies them in NumPy
    (`_apply`) and writes them as Keras layers (`_graph`). The rest is here:
    models, files and arrays as input, binary and dense outputs, the report.

    Attributes set by fitting:
        parameters_: dict of the fitted values.
        report_: dict of NLL, ECE and accuracy on the data given, `_before`
            and `_after`, and `seconds`.
        model: Keras model with calibrated probabilities (after `fit`).

    >>> fitted = GlobalScaling().fit("model.keras", x_val, y_val)
    >>> fitted.model.save("calibrated.keras")
    """

    uses_features = False
    """Whether fitting needs features beside the logits."""
    keeps_accuracy = True
    """Whether the predicted class stays, but for ties of a huge temperature."""

    def fit(
        self,
        model,
        x,
        y=None,
        *,
        sample_weight=None,
        from_logits: bool | None = None,
        features: str | None = None,
        batch_size: int = 32,
    ):
        """Recalibrates a trained Keras model.

        Args:
            model: a `keras.Model`, or the path of a `.keras` file.
            x: inputs as for `model.predict`, or an iterable of `(x, y)`
                batches such as a `tf.data.Dataset`.
            y: class numbers or one-hot labels; left out for batches.
            sample_weight: one weight an example, or `None`.
            from_logits: whether the model puts out logits. `None` (default)
                looks at its last layer.
            features: name of the layer whose output are the features.
                Defaults to the input of the layer of the logits.
            batch_size: of the prediction.

        Returns:
            `self`, with `model` set.
        """
        frozen = FrozenModel(
            model,
            example=x,
            from_logits=from_logits,
            feature_layer=features,
            with_features=self.uses_features,
        )
        logits, found, y, weight = frozen.outputs(
            x, y, sample_weight, batch_size
        )
        self.fit_arrays(
            logits, y, features=found, sample_weight=weight, from_logits=True
        )
        self.model = frozen.extend(self._graph)
        return self

    def fit_arrays(
        self,
        logits,
        y,
        features=None,
        *,
        from_logits: bool = True,
        sample_weight=None,
    ):
        """Recalibrates from a classifier's outputs.

        Args:
            logits: `(n, ..., classes)`, or `(n,)` or `(n, ..., 1)` for a
                yes/no question.
            y: class numbers `(n, ...)` or one-hot labels.
            features: `(n, ..., columns)`, for methods that use them.
            from_logits: `False` if `logits` are probabilities.
            sample_weight: weights `>= 0`, `(n,)` or `(n, ...)`; rows of
                weight 0 are left out.

        Returns:
            `self`.
        """
        started = time.perf_counter()
        rows, shape = inputs.as_logits(logits, from_logits)
        leading = shape[:-1]
        weight = inputs.as_weight(sample_weight, leading)
        labels = inputs.as_labels(y, shape, weight)
        found = self._rows_of_features(features, leading)
        if weight is not None:
            kept = weight > 0
            rows, labels, weight = rows[kept], labels[kept], weight[kept]
            found = None if found is None else found[kept]
        before = scores(rows, labels, weight)
        self._fit(rows, labels, found, weight)
        after = self._scores_after(rows, labels, found, weight)
        self.report_ = {
            **{f"{k}_before": v for k, v in before.items()},
            **{f"{k}_after": v for k, v in after.items()},
            "seconds": time.perf_counter() - started,
        }
        return self

    def calibrate(self, logits, features=None, *, from_logits: bool = True):
        """Returns calibrated probabilities, of the shape of `logits`.

        Args:
            logits: as in `fit_arrays`.
            features: as in `fit_arrays`.
            from_logits: `False` if `logits` are probabilities.
        """
        if not hasattr(self, "parameters_"):
            raise ValueError(
                f"{type(self).__name__} must be fitted before `calibrate`. "
                "Received: a recalibrator without `parameters_`"
            )
        rows, shape = inputs.as_logits(logits, from_logits)
        found = self._rows_of_features(features, shape[:-1])
        calibrated = np.exp(log_softmax(self._apply(rows, found), axis=1))
        if shape[-1] == 1:
            calibrated = calibrated[:, 1:]
        result = calibrated.reshape(shape)
        return result[:, 0] if np.ndim(logits) == 1 else result

    def _rows_of_features(self, features, leading):
        if not self.uses_features:
            return None
        if features is None:
            raise ValueError(
                f"{type(self).__name__} needs `features` beside the logits. "
                "Received: features=None"
            )
        return inputs.as_features(features, leading)

    def _scores_after(self, logits, labels, features, weight):
        return scores(self._apply(logits, features), labels, weight)

    def _fit(self, logits, labels, features, weight):
        raise NotImplementedError

    def _apply(self, logits, features):
        """Returns recalibrated logits, `(rows, classes)`."""
        raise NotImplementedError

    def _graph(self, logits, features):
        """Returns the Keras tensor of calibrated probabilities."""
        raise NotImplementedError


def scores(logits, labels, weight, tau=1.0) -> dict:
    """NLL, ECE (15 equal-width bins) and accuracy of tempered logits."""
    at = softmax_moments(logits, labels, tau)
    right = logits.argmax(axis=1) == labels
    return {
        "nll": float(np.average(at.nll, weights=weight)),
        "ece": binned_error(right, at.confidence, weight),
        "accuracy": float(np.average(right, weights=weight)),
    }
