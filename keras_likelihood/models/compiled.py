"""The losses and metrics of a compiled model, by output.

On some backends learned parameters can only be read while the loss is computed.
So the metrics of a likelihood model are updated there.
"""

import contextlib
import itertools
from typing import Any

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.processes import replica_count
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods import Bernoulli, Likelihood
from keras_likelihood.losses.batch import Batch
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.losses.weighted import Weighted, as_keras_loss
from keras_likelihood.metrics.distribution_metrics import (
    DistributionMetric,
    as_logits,
)
from keras_likelihood.models.outputs import Outputs


def with_instances(loss: Any) -> Any:
    """Replaces names and classes of likelihood losses by instances.

    Names of Keras losses, such as `"poisson"`, are not replaced.
    """
    if keras.tree.is_nested(loss):
        return keras.tree.map_structure(with_instances, loss)
    if isinstance(loss, type) and issubclass(loss, LikelihoodLoss):
        return loss()
    if isinstance(loss, str):
        with contextlib.suppress(ValueError):
            keras.losses.get(loss)
            return loss
        with contextlib.suppress(ValueError):
            return LikelihoodLoss(likelihoods.get(loss))
    # Keras raises an error that lists its losses.
    return loss


class Compiled:
    """Losses and metrics of a model with at least one likelihood, by output.

    Without a loss of this package there are no losses here, and Keras computes
    the loss and the metrics.
    """

    def __init__(
        self,
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        *,
        outputs: Any = None,
    ) -> None:
        self.outputs = Outputs()
        self.losses: dict[Any, Any] = {}
        self.by_key: dict[Any, LikelihoodLoss] = {}
        self.loss_weights: dict[Any, float | None] = {}
        self.metrics: list[CountedMetric] = []
        self.loss_means: dict[Any, keras.metrics.Mean] = {}
        if not any(map(learns, keras.tree.flatten(loss))):
            return
        parts = loss.values() if isinstance(loss, dict) else loss
        is_nested = keras.tree.is_nested
        if is_nested(loss) and any(map(is_nested, parts)):
            raise ValueError(
                "`loss` must be a flat dict or list if it contains "
                f"likelihood losses. Received: {loss!r}"
            )
        self.outputs = Outputs.of(loss, outputs)
        given = self.outputs.parts(loss, "loss")
        names = self.outputs.with_loss
        self.losses = {key: as_keras_loss(given[key]) for key in names}
        self.by_key = {
            key: loss
            for key, loss in self.losses.items()
            if isinstance(loss, LikelihoodLoss)
        }
        flat = keras.tree.flatten(loss_weights)
        if len(flat) == 1 and (self.is_one or not is_nested(loss_weights)):
            loss_weights = dict.fromkeys(self.losses, flat[0])
        self.loss_weights = self.outputs.parts(loss_weights, "loss_weights")
        for is_weighted, part in enumerate((metrics, weighted_metrics)):
            if self.is_one and isinstance(part, list | tuple):
                part = [part]
            for key, some in self.outputs.parts(part, "metrics").items():
                for one in keras.tree.flatten(some):
                    if one is not None:
                        self._add_metric(key, one, bool(is_weighted))
        for key in self.losses if len(self.losses) > 1 else ():
            self.loss_means[key] = keras.metrics.Mean(self.label(key, "loss"))

    @property
    def is_one(self) -> bool:
        """Whether the model has a single output."""
        return self.outputs.keys == ("",)

    def label(self, key: Any, name: str) -> str:
        """Name of a parameter or metric of one output, as in the logs."""
        return name if self.is_one else f"{self.outputs.name(key)}_{name}"

    def _add_metric(self, key: Any, given: Any, is_weighted: Any) -> None:
        loss = self.losses.get(key)
        metric = _as_metric(given, getattr(loss, "likelihood", None))
        if isinstance(metric, DistributionMetric):
            if key not in self.by_key:
                raise ValueError(
                    f"The metric {metric.name} needs a likelihood loss. "
                    f"Received: {loss and loss.name} for {key!r}"
                )
            metric.bind(loss)
        taken = {one.name for one in self.metrics}
        wanted = self.label(key, metric.name)
        if wanted in taken and is_weighted:
            wanted = self.label(key, f"weighted_{metric.name}")
        numbered = (f"{wanted}_{i}" for i in itertools.count(1))
        names = itertools.chain([wanted], numbered)
        name = next(name for name in names if name not in taken)
        self.metrics.append(CountedMetric(metric, key, is_weighted, name))

    def count(
        self, key: Any, value: Tensor, batch: Batch, distribution: Any = None
    ) -> None:
        """Updates the metrics of one output with its loss and batch."""
        if key in self.loss_means:
            rows = ops.shape(batch.prediction)[0]
            if getattr(self.losses[key], "missing", None) is not None:
                rows = batch.count()
            self.loss_means[key].update_state(
                value * replica_count(), sample_weight=rows
            )
        for metric in self.metrics:
            if metric.key == key:
                metric.count(batch, distribution)


class CountedMetric(keras.metrics.Metric):
    """A metric of one output under the name that Keras would use.

    See `LikelihoodModel.compile` for what it gets. Metrics of Keras with
    `from_logits=True` get the logarithm of class probabilities.
    """

    def __init__(
        self, metric: Any, key: Any, is_weighted: bool, name: str
    ) -> None:
        super().__init__(name=name)
        self.metric, self.key, self.is_weighted = metric, key, is_weighted

    def count(self, batch: Batch, distribution: Any = None) -> None:
        """Updates with the `Batch` of the output and its distribution."""
        if distribution is None:
            weights = batch.weight if self.is_weighted else None
            self.metric.update_state(
                batch.target, batch.prediction, sample_weight=weights
            )
            return
        batch = batch if self.is_weighted else batch.unweighted()
        if isinstance(self.metric, DistributionMetric):
            self.metric.add(distribution, batch)
            return
        y = batch.target_where(distribution)
        y_pred, weights = batch.prediction, batch.weight
        if hasattr(distribution, "class_probabilities"):
            y_pred = self._classes_of(distribution)
        elif weights.shape[-1] == y_pred.shape[-1] > 1:
            # Keras' metrics take no weight per unit: each unit is a row.
            y, y_pred, weights = (
                ops.reshape(v, (-1, 1)) for v in (y, y_pred, weights)
            )
        self.metric.update_state(
            y, y_pred, sample_weight=None if batch.is_plain else weights
        )

    def _classes_of(self, distribution: Likelihood) -> Any:
        # For binary targets Keras expects one column of probabilities.
        if is_binary := _is_binary(distribution):
            p = distribution.mean()
        else:
            p = distribution.class_probabilities()
        if not self.metric.get_config().get("from_logits"):
            return p
        return as_logits(p, Bernoulli) if is_binary else ops.log(p)

    def result(self) -> Tensor:
        return self.metric.result()

    def reset_state(self) -> None:
        self.metric.reset_state()


def learns(loss: Any) -> bool:
    """Whether a loss may have learned parameters."""
    return isinstance(loss, LikelihoodLoss | Weighted)


def _as_metric(given: Any, likelihood: Any) -> Any:
    wrapper = keras.metrics.MeanMetricWrapper
    if str(given).lower() in ("accuracy", "acc"):
        binary = keras.metrics.binary_accuracy
        function = binary if _is_binary(likelihood) else _accuracy
        metric = wrapper(function, name=str(given))
    else:
        metric = keras.metrics.get(given)
        if not isinstance(metric, keras.metrics.Metric):
            metric = wrapper(metric, getattr(metric, "__name__", "metric"))
        if isinstance(given, str):
            metric.name = given
    takes_bounds = getattr(likelihood, "takes_bounds", False)
    if takes_bounds and not isinstance(metric, DistributionMetric):
        raise ValueError(
            f"Targets of {likelihood.__name__} may be bounds, which need a "
            "metric of `keras_likelihood.metrics`, such as "
            f"NegativeLogLikelihood. Received: metric {given!r}"
        )
    return metric


def _accuracy(y_true: Tensor, y_pred: Tensor) -> Any:
    """Accuracy of class numbers, one-hot labels or binary labels."""
    if y_pred.shape[-1] == 1:
        return keras.metrics.binary_accuracy(y_true, y_pred)
    if len(y_true.shape) < len(y_pred.shape) or y_true.shape[-1] == 1:
        return keras.metrics.sparse_categorical_accuracy(y_true, y_pred)
    return keras.metrics.categorical_accuracy(y_true, y_pred)


def _is_binary(likelihood: Any) -> Any:
    """Whether outcomes are binary, of the members if it is an ensemble."""
    kind = likelihood if isinstance(likelihood, type) else type(likelihood)
    return issubclass(getattr(kind, "likelihood", kind), Bernoulli)
