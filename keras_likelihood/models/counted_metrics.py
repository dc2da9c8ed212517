"""The metrics that a model is compiled with, counted with the loss.

Only where the loss is computed can a learned parameter be read on every
backend. So the metrics of a likelihood model are counted there.
"""

import dataclasses

import keras
from keras import ops

from keras_likelihood.backend.processes import replicas_that_add
from keras_likelihood.likelihoods import Bernoulli
from keras_likelihood.metrics.distribution_metrics import (
    DistributionMetric,
    as_logits,
)


class CountedMetric(keras.metrics.Metric):
    """A metric of one output under the name that Keras would give it.

    Metrics of this package get the distribution. Metrics of Keras get class
    probabilities if the likelihood has classes (logits, if they are made with
    `from_logits=True`), and else the prediction.
    """

    def __init__(self, metric, key, is_weighted: bool, name: str):
        super().__init__(name=name)
        self.metric, self.key, self.is_weighted = metric, key, is_weighted

    def count(self, batch, distribution=None):
        """Counts the `Batch` of the output, with its distribution if any."""
        if not self.is_weighted:
            # Masks still count.
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
        # One column of probabilities is the answer to a yes/no question.
        is_answer = issubclass(_single(distribution), Bernoulli)
        p = distribution.mean() if is_answer else None
        p = distribution.class_probabilities() if p is None else p
        if not self.metric.get_config().get("from_logits"):
            return p
        return as_logits(p, Bernoulli) if is_answer else ops.log(p)

    def update_state(self, *args, **kwargs):
        """Leaves the counting to `compute_loss` of the model."""

    def result(self):
        return self.metric.result()

    def reset_state(self):
        self.metric.reset_state()


class CountedMetrics:
    """The metrics of all outputs, and the running means of their losses."""

    def __init__(self, losses=None, metrics=None, weighted_metrics=None):
        self.metrics: list[CountedMetric] = []
        self.loss_means: dict = {}
        if losses is None or not losses.by_key:
            return
        for is_weighted, given in enumerate((metrics, weighted_metrics)):
            for key, part in _by_output(given, losses).items():
                for one in keras.tree.flatten(part):
                    if one is not None:
                        self._add(losses, key, one, bool(is_weighted))
        for key in losses.all() if len(losses.all()) > 1 else ():
            self.loss_means[key] = keras.metrics.Mean(name=f"{key}_loss")

    def _add(self, losses, key, given, is_weighted):
        loss = losses.all()[key]
        metric = _as_metric(given, getattr(loss, "likelihood", None))
        if isinstance(metric, DistributionMetric):
            if key not in losses.by_key:
                raise ValueError(
                    f"The metric {metric.name} needs a likelihood loss. "
                    f"Received: {loss.name} for {key!r}"
                )
            metric.bind(loss)
        name = _free_name(metric.name, key, is_weighted, self.metrics)
        self.metrics.append(CountedMetric(metric, key, is_weighted, name))

    def all(self) -> list[keras.metrics.Metric]:
        return [*self.loss_means.values(), *self.metrics]

    def count(self, key, value, batch, distribution=None):
        """Counts the loss and the batch of one output."""
        if key in self.loss_means:
            rows = ops.shape(batch.prediction)[0]
            self.loss_means[key].update_state(
                value * replicas_that_add(), sample_weight=rows
            )
        for metric in self.metrics:
            if metric.key == key:
                metric.count(batch, distribution)


def _by_output(given, losses):
    if losses.is_one:
        return {"": given}
    keys = list(losses.all())
    if isinstance(given, list | tuple):
        given = dict(zip(sorted(keys, key=str), given, strict=False))
    if unknown := sorted(set(given or {}) - set(keys), key=str):
        raise ValueError(
            f"Metrics are given by output, one of {keys}. Received: {unknown}"
        )
    return given or {}


def _as_metric(given, likelihood):
    if str(given).lower() in ("accuracy", "acc"):
        is_answer = issubclass(_single(likelihood), Bernoulli)
        function = keras.metrics.binary_accuracy if is_answer else _accuracy
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
            f"Targets of {likelihood.__name__} may be bounds, which only the "
            "metrics of `keras_likelihood.metrics` understand, such as "
            f"NegativeLogLikelihood. Received: metric {given!r}"
        )
    return metric


def _accuracy(y_true, y_pred):
    """Accuracy of classes, by number or one-hot, or of one answer."""
    if y_pred.shape[-1] == 1:
        return keras.metrics.binary_accuracy(y_true, y_pred)
    fewer = len(y_true.shape) < len(y_pred.shape)
    if fewer or y_true.shape[-1] == 1:
        return keras.metrics.sparse_categorical_accuracy(y_true, y_pred)
    return keras.metrics.categorical_accuracy(y_true, y_pred)


def _single(likelihood):
    """The likelihood class, of the members if it is that of an ensemble."""
    kind = likelihood if isinstance(likelihood, type) else type(likelihood)
    return getattr(kind, "likelihood", kind)


def _free_name(name, key, is_weighted, found):
    taken = {metric.name for metric in found}
    prefix = "" if key == "" else f"{key}_"
    wanted = f"{prefix}{name}"
    if wanted in taken and is_weighted:
        wanted = f"{prefix}weighted_{name}"
    free, number = wanted, 1
    while free in taken:
        free, number = f"{wanted}_{number}", number + 1
    return free
