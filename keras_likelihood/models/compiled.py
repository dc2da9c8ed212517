"""The losses and metrics of a compiled model, by output.

On some backends learned parameters can only be read while the loss is computed.
So the metrics of a likelihood model are updated there.
"""

import contextlib
import dataclasses
from typing import Any

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.processes import replicas_that_add
from keras_likelihood.likelihoods import Bernoulli
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.losses.batch import FunctionLoss, by_output
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.metrics.distribution_metrics import (
    DistributionMetric,
    as_logits,
)


def with_instances(loss):
    """Replaces names and classes of likelihood losses by instances.

    Names of Keras losses, such as `"poisson"`, are not replaced.
    """
    return keras.tree.map_structure(_with_instance, loss)


def _with_instance(loss):
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

    The key of a single output is `""`. The keys of several outputs are their
    names or, for a list of outputs, their positions. Without a likelihood loss
    there are no keys, and Keras computes the loss and the metrics.
    """

    def __init__(
        self, loss=None, loss_weights=None, metrics=None, weighted_metrics=None
    ):
        given = by_output(loss)
        for value in given.values():
            nested = isinstance(value, dict | list | tuple)
            if nested and any(map(_is_ours, keras.tree.flatten(value))):
                raise ValueError(
                    "`loss` must be a flat dict or list if it contains "
                    f"likelihood losses. Received: {value!r} inside `loss`"
                )
        self.by_key = {k: v for k, v in given.items() if _is_ours(v)}
        self.is_one = list(self.by_key) == [""]
        self.losses = {
            k: v if _is_ours(v) else _as_loss(v)
            for k, v in given.items()
            if self.by_key and v is not None
        }
        self.loss_weights = loss_weights
        self.metrics: list[CountedMetric] = []
        self.loss_means: dict = {}
        if not self.by_key:
            return
        if self.is_one and isinstance(loss_weights, dict | list | tuple):
            values = keras.tree.flatten(loss_weights)
            allowed = "one number for one output, or a dict by output"
            one = len(values) == 1
            check_argument("loss_weights", loss_weights, one, allowed)
            self.loss_weights = values[0]
        for is_weighted, part in enumerate((metrics, weighted_metrics)):
            for key, some in self._by_output(part).items():
                for one in keras.tree.flatten(some):
                    if one is not None:
                        self._add_metric(key, one, bool(is_weighted))
        for key in self.losses if len(self.losses) > 1 else ():
            self.loss_means[key] = keras.metrics.Mean(name=f"{key}_loss")

    def _by_output(self, metrics):
        if self.is_one:
            return {"": metrics}
        keys = list(self.losses)
        if isinstance(metrics, list | tuple):
            metrics = dict(zip(sorted(keys, key=str), metrics, strict=False))
        if unknown := sorted(set(metrics or {}) - set(keys), key=str):
            raise ValueError(
                f"The keys of `metrics` must be outputs, {keys}. "
                f"Received: {unknown}"
            )
        return metrics or {}

    def _add_metric(self, key, given, is_weighted):
        loss = self.losses[key]
        metric = _as_metric(given, getattr(loss, "likelihood", None))
        if isinstance(metric, DistributionMetric):
            if key not in self.by_key:
                raise ValueError(
                    f"The metric {metric.name} needs a likelihood loss. "
                    f"Received: {loss.name} for {key!r}"
                )
            metric.bind(loss)
        taken = {found.name for found in self.metrics}
        name = _free_name(metric.name, key, is_weighted, taken)
        self.metrics.append(CountedMetric(metric, key, is_weighted, name))

    def refuse_other_structure(self, outputs):
        """Raises an error if a loss has no output (tensors or shapes)."""
        if self.is_one and not isinstance(outputs, dict):
            return
        known: Any = outputs if isinstance(outputs, dict) else ()
        if isinstance(outputs, list | tuple):
            known = range(len(outputs))
        missing = [k for k in self.losses if k not in known]
        if missing:
            keys = "one loss" if self.is_one else f"losses for {missing}"
            raise ValueError(
                "A dict of outputs needs a dict of losses with its keys, and a "
                f"list of outputs a list of losses, by position: {[*known]}. "
                f"Received: {keys}"
            )

    def count(self, key, value, batch, distribution=None):
        """Updates the metrics of one output with its loss and batch."""
        if key in self.loss_means:
            rows = ops.shape(batch.prediction)[0]
            self.loss_means[key].update_state(
                value * replicas_that_add(), sample_weight=rows
            )
        for metric in self.metrics:
            if metric.key == key:
                metric.count(batch, distribution)


class CountedMetric(keras.metrics.Metric):
    """A metric of one output under the name that Keras would use.

    Metrics of this package get the distribution. Metrics of Keras get class
    probabilities if the likelihood has classes (logits, if they have
    `from_logits=True`), otherwise the prediction.
    """

    def __init__(self, metric, key, is_weighted: bool, name: str):
        super().__init__(name=name)
        self.metric, self.key, self.is_weighted = metric, key, is_weighted

    def count(self, batch, distribution=None):
        """Updates with the `Batch` of the output and its distribution."""
        if not self.is_weighted:
            # Masks still apply.
            batch = dataclasses.replace(batch, sample_weight=None)
        if isinstance(self.metric, DistributionMetric):
            self.metric.judge(distribution, batch)
            return
        y, y_pred, weights = batch.target, batch.prediction, batch.sample_weight
        if hasattr(distribution, "class_probabilities"):
            weights = batch.weights(distribution.event_rank)
            y = batch.counted_target(distribution, weights)
            y_pred = self._classes_of(distribution)
        self.metric.update_state(y, y_pred, sample_weight=weights)

    def _classes_of(self, distribution):
        # For binary targets Keras expects one column of probabilities.
        is_binary = _is_binary(distribution)
        p = distribution.mean() if is_binary else None
        p = distribution.class_probabilities() if p is None else p
        if not self.metric.get_config().get("from_logits"):
            return p
        return as_logits(p, Bernoulli) if is_binary else ops.log(p)

    def update_state(self, *args, **kwargs):
        """Does nothing, because `compute_loss` of the model updates it."""

    def result(self):
        return self.metric.result()

    def reset_state(self):
        self.metric.reset_state()


def _is_ours(loss):
    return isinstance(loss, LikelihoodLoss)


def _as_loss(loss):
    """A Keras loss for an output without a likelihood."""
    loss = keras.losses.get(loss)
    return loss if isinstance(loss, keras.losses.Loss) else FunctionLoss(loss)


def _as_metric(given, likelihood):
    if str(given).lower() in ("accuracy", "acc"):
        binary = keras.metrics.binary_accuracy
        function = binary if _is_binary(likelihood) else _accuracy
        metric = keras.metrics.MeanMetricWrapper(function, name=str(given))
    else:
        metric = keras.metrics.get(given)
        name = given if isinstance(given, str) else None
        if not isinstance(metric, keras.metrics.Metric):
            metric = keras.metrics.MeanMetricWrapper(
                metric, name=name or getattr(metric, "__name__", "metric")
            )
        metric.name = name or metric.name
    takes_bounds = getattr(likelihood, "takes_bounds", False)
    if takes_bounds and not isinstance(metric, DistributionMetric):
        raise ValueError(
            f"Targets of {likelihood.__name__} may be bounds, which need a "
            "metric of `keras_likelihood.metrics`, such as "
            f"NegativeLogLikelihood. Received: metric {given!r}"
        )
    return metric


def _accuracy(y_true, y_pred):
    """Accuracy of class numbers, one-hot labels or binary labels."""
    if y_pred.shape[-1] == 1:
        return keras.metrics.binary_accuracy(y_true, y_pred)
    if len(y_true.shape) < len(y_pred.shape) or y_true.shape[-1] == 1:
        return keras.metrics.sparse_categorical_accuracy(y_true, y_pred)
    return keras.metrics.categorical_accuracy(y_true, y_pred)


def _is_binary(likelihood):
    """Whether outcomes are binary, of the members if it is an ensemble."""
    kind = likelihood if isinstance(likelihood, type) else type(likelihood)
    return issubclass(getattr(kind, "likelihood", kind), Bernoulli)


def _free_name(name, key, is_weighted, taken):
    prefix = "" if key == "" else f"{key}_"
    wanted = f"{prefix}{name}"
    if wanted in taken and is_weighted:
        wanted = f"{prefix}weighted_{name}"
    free, number = wanted, 1
    while free in taken:
        free, number = f"{wanted}_{number}", number + 1
    return free
