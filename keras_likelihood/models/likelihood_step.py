"""What a model of a likelihood computes for one batch."""

import types
from typing import Any

from keras import ops

from keras_likelihood.backend.private import UNTRACKED
from keras_likelihood.backend.processes import replicas_that_add
from keras_likelihood.backend.rows import value_gradient_and_others
from keras_likelihood.data_parameters.indexed import split_index
from keras_likelihood.losses.batch import Batch
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.models.compiled_losses import CompiledLosses, entry
from keras_likelihood.models.loss_owner import LossOwner


class LikelihoodStep(LossOwner):
    """The loss of a batch, the step of its data parameters, and its metrics.

    `LikelihoodModel` adds how such a model is made, compiled and fitted.
    """

    def __new__(cls, *args, **kwargs):
        model = super().__new__(cls)
        # Keras does not track the attributes of a plain namespace.
        model.__dict__["_compiled"] = types.SimpleNamespace(
            losses=CompiledLosses(),
            given={},
            outputs=None,
        )
        return model

    def __setattr__(self, name, value):
        if name in UNTRACKED:
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def data_parameters(self) -> dict:
        """The `DataParameter`s of the losses, by name."""
        return {
            name if key == "" else f"{key}_{name}": parameter
            for key, loss in self._compiled.losses.by_key.items()
            for name, parameter in loss.data_parameters.items()
        }

    def loss_weight(self, key="") -> float | None:
        """The weight of the loss of the output `key`, `None` for 1."""
        return self._compiled.losses.weight(key)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """The negative log-likelihood and the losses that layers add.

        Each output becomes a distribution once, which the loss, the metrics
        and the data parameters use. The metrics are counted and the data
        parameters are trained here: a training step of your own must call
        this method.
        """
        losses = self._compiled.losses
        if not losses.by_key:
            return super().compute_loss(
                x, y, y_pred, sample_weight, training=training
            )
        y, sample_weight, index = split_index(y, sample_weight)
        total: Any = 0.0
        for key, batch, value, distribution in self._each_output(
            y, y_pred, sample_weight, index, training
        ):
            self.counted.count(key, value, batch, distribution)
            total = total + self._weighted(key, value)
        # Each replica has a share of the losses that layers add.
        count = replicas_that_add()
        for added in self.losses:
            total = total + ops.cast(ops.sum(added), total.dtype) / count
        return total

    def data_loss(self, y, y_pred, sample_weight=None):
        """The loss of the outputs alone.

        Nothing is counted or trained, and losses that layers add are left out.

        Args:
            y, sample_weight: targets and weights, as in `compute_loss`.
            y_pred: the output of the model.
        """
        if not self._compiled.losses.by_key:
            loss = super().compute_loss(None, y, y_pred, sample_weight)
            return loss - sum(ops.cast(a, loss.dtype) for a in self.losses)
        y, sample_weight, index = split_index(y, sample_weight)
        outputs = self._each_output(y, y_pred, sample_weight, index, False)
        return sum(self._weighted(key, value) for key, _, value, _ in outputs)

    def _weighted(self, key, value):
        weight = self._compiled.losses.weight(key)
        return value if weight is None else value * weight

    def _each_output(self, y, y_pred, sample_weight, index, training):
        """Key, `Batch`, loss and distribution of each output in turn."""
        losses = self._compiled.losses
        losses.refuse_other_structure(y_pred)
        for key, loss in losses.all().items():
            given = (entry(part, key) for part in (y, y_pred, sample_weight))
            if isinstance(loss, LikelihoodLoss):
                batch = loss.batch(*given)
                value, distribution = _loss_and_distribution(
                    loss, batch, index, training, losses.weight(key)
                )
            else:
                target, output, weight = given
                batch = Batch(output, target, weight)
                value, distribution = loss(target, output, weight), None
            yield key, batch, value, distribution

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """The results of the metrics, which `compute_loss` has counted."""
        if not self._compiled.losses.by_key:
            return super().compute_metrics(x, y, y_pred, sample_weight)
        return self.get_metrics_result()


def _loss_and_distribution(loss, batch: Batch, index, training, weight):
    """Computes the loss of one output and trains its data parameters.

    Args:
        loss: a `LikelihoodLoss`.
        batch: the `Batch` of the output.
        index: row numbers of the examples, or `None`.
        training: whether to move the rows.
        weight: factor of this loss in the total, or `None` for 1.

    Returns:
        `(value, distribution)`: the loss before the rows move and without the
        factor, and the `Likelihood`.
    """
    data = loss.data_parameters
    if training:
        for parameter in data.values():
            parameter.require_rows(index)
    if index is None or not data:
        distribution = loss.distribution(batch.output)
        return loss.of(distribution, batch), distribution
    rows = {name: parameter.read(index) for name, parameter in data.items()}
    moving = [n for n, p in data.items() if not p.follows] if training else []

    def objective(*displacements):
        """The loss, and the distribution as its prediction and parameters."""
        values = {name: r.displacement for name, r in rows.items()}
        values |= dict(zip(moving, displacements, strict=True))
        distribution = loss.distribution(
            batch.output, {n: data[n].value_at(v) for n, v in values.items()}
        )
        return loss.of(distribution, batch), distribution.values()

    start = [rows[name].displacement for name in moving]
    value, gradients, parts = value_gradient_and_others(objective, start)
    distribution = loss.likelihood(**parts)
    for name, gradient in zip(moving, gradients, strict=True):
        scaled = gradient if weight is None else gradient * weight
        data[name].move(rows[name], scaled, weight)
    if training:
        for name in set(data) - set(moving):
            away = data[name].distance(rows[name], distribution)
            data[name].move(rows[name], away)
    return value, distribution
