"""The losses and metrics that a model is compiled with."""

import keras

from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.metrics.distribution_metric import DistributionMetric


def with_instances(loss):
    """Replaces each class of a likelihood loss by an instance."""
    if isinstance(loss, type) and issubclass(loss, LikelihoodLoss):
        return loss()
    if isinstance(loss, dict):
        return {key: with_instances(value) for key, value in loss.items()}
    if isinstance(loss, list | tuple):
        return [with_instances(value) for value in loss]
    return loss


def entry(structure, key: str):
    """The part of a structure that belongs to the output `key`."""
    if key and isinstance(structure, dict):
        return structure.get(key)
    return structure


class CompiledLosses:
    """The likelihood losses of a model with their weights and metrics.

    Args:
        loss: as given to `compile`.
        loss_weights: as given to `compile`.
    """

    def __init__(self, loss=None, loss_weights=None):
        self.by_key = _likelihood_losses(loss)
        self.is_one = isinstance(loss, LikelihoodLoss)
        self._weights = loss_weights
        self.metrics = []

    def weight(self, key: str) -> float | None:
        """The factor of the loss of the output `key`, or `None` for 1."""
        weights = self._weights
        if isinstance(weights, dict) and not self.is_one:
            return weights.get(key)
        if isinstance(weights, dict):
            weights = list(weights.values())
        if isinstance(weights, list | tuple):
            if len(weights) != 1:
                raise ValueError(
                    "`loss_weights` must be one number for one output, or a "
                    f"dict by output. Received: {self._weights}"
                )
            return weights[0]
        return weights

    def bind_metrics(self, output_names, metrics, weighted_metrics):
        """Finds the metrics that need distributions, by output.

        Args:
            output_names: names of the outputs, in the model's order.
            metrics, weighted_metrics: as given to `compile`.
        """
        self.metrics = []
        for is_weighted, given in enumerate((metrics, weighted_metrics)):
            for key, part in self._by_output(given, output_names):
                for metric in keras.tree.flatten(part):
                    if isinstance(metric, DistributionMetric):
                        self.metrics.append((key, metric, is_weighted))
                    elif metric is not None:
                        _refuse_bounds(metric, self.by_key[key].likelihood)
        for key, metric, _ in self.metrics:
            metric.bind(self.by_key[key])

    def count_batch(self, y, y_pred, sample_weight):
        """Updates the metrics with the distributions of a batch."""
        distributions = {
            key: self.by_key[key].distribution(entry(y_pred, key))
            for key in {key for key, *_ in self.metrics}
        }
        for key, metric, is_weighted in self.metrics:
            weight = entry(sample_weight, key) if is_weighted else None
            metric.count_batch(
                distributions[key], entry(y, key), entry(y_pred, key), weight
            )

    def _by_output(self, structure, output_names):
        if self.is_one:
            return [("", structure)]
        if isinstance(structure, list | tuple):
            known = set(output_names or ()) == set(self.by_key)
            names = output_names if known else sorted(self.by_key)
            structure = dict(zip(names, structure, strict=False))
        if not isinstance(structure, dict):
            return []
        return [(k, v) for k, v in structure.items() if k in self.by_key]


def _refuse_bounds(metric, likelihood):
    if likelihood.takes_bounds:
        raise ValueError(
            f"Targets of {likelihood.__name__} may be bounds, which only the "
            "metrics of `keras_likelihood.metrics` understand, such as "
            f"NegativeLogLikelihood. Received: metric {metric!r}"
        )


def _likelihood_losses(loss):
    """The likelihood losses in `loss`, by output key."""
    if isinstance(loss, LikelihoodLoss):
        return {"": loss}
    if isinstance(loss, dict):
        return {k: v for k, v in loss.items() if isinstance(v, LikelihoodLoss)}
    if isinstance(loss, list | tuple) and any(
        isinstance(v, LikelihoodLoss) for v in loss
    ):
        raise ValueError(
            "Likelihood losses of several outputs are given as a dict, with "
            f"a dict of outputs of the same keys. Received: {loss}"
        )
    return {}
