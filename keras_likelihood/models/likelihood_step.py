"""What a model of a likelihood computes for one batch."""

import contextlib
import types

from keras import ops

from keras_likelihood.data_parameters.indexed import split_index
from keras_likelihood.data_parameters.parameter_rows import step_rows
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.models.compiled_losses import CompiledLosses, entry
from keras_likelihood.models.loss_owner import LossOwner


class LikelihoodStep(LossOwner):
    """The loss of a batch, the step of its data parameters, and its metrics.

    `LikelihoodModel` adds how such a model is made, compiled and fitted.
    """

    def __new__(cls, *args, **kwargs):
        model = super().__new__(cls)
        # Keras does not track the attributes of a plain namespace.
        model.__dict__["_fitted"] = types.SimpleNamespace(
            losses=CompiledLosses(),
            outputs=None,
            is_counted=False,
        )
        return model

    def __setattr__(self, name, value):
        if name == "_jax_state":
            # On JAX Keras sets all arrays of a model here after every step,
            # and would search each of them for layers and variables.
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def data_parameters(self) -> dict:
        """The `DataParameter`s of the losses, by name."""
        return {
            f"{key}_{name}" if key else name: parameter
            for key, loss in self._fitted.losses.by_key.items()
            for name, parameter in loss.data_parameters.items()
        }

    def loss_weight(self, key: str = "") -> float | None:
        """The weight of the loss of the output `key`, `None` for 1."""
        return self._fitted.losses.weight(key)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        """The negative log-likelihood and the losses that layers add.

        Data parameters are trained here, because only the loss depends on
        them.
        """
        y, sample_weight, index = split_index(y, sample_weight)
        with contextlib.ExitStack() as batch:
            for loss in self._fitted.losses.by_key.values():
                batch.enter_context(loss.trained_by_model())
            for parameter in self.data_parameters.values():
                batch.enter_context(parameter.batch(index, training))
            self._fitted.losses.count_batch(y, y_pred, sample_weight)
            self._fitted.is_counted = True
            total = self._total_loss(x, y, y_pred, sample_weight, training)
        self.loss_parameters.log()
        return total

    def _total_loss(self, x, y, y_pred, sample_weight, training):
        losses = self._fitted.losses
        if not losses.is_one:
            total = super().compute_loss(
                x, y, y_pred, sample_weight, training=training
            )
            for key, loss in losses.by_key.items():
                if training and loss.data_parameters:
                    self._step_rows(key, y, y_pred, sample_weight)
            return total
        if isinstance(y_pred, dict):
            raise ValueError(
                "A dict of outputs needs a dict of losses with its keys, "
                f"{sorted(y_pred)}. Received: the one loss {self.loss.name}"
            )
        if training and self.loss.data_parameters:
            total = self._step_rows("", y, y_pred, sample_weight)
        else:
            total = self.loss(y, y_pred, sample_weight)
            weight = losses.weight("")
            total = total if weight is None else total * weight
        for added in self.losses:
            # The losses of the replicas are added. Each replica has a share of
            # this one.
            share = self._aggregate_additional_loss(added)
            total = total + ops.cast(share, total.dtype)
        return total

    def _step_rows(self, key, y, y_pred, sample_weight):
        loss = self._fitted.losses.by_key[key]
        return step_rows(
            loss,
            [p.rows for p in loss.data_parameters.values()],
            entry(y, key),
            entry(y_pred, key),
            entry(sample_weight, key),
            self._fitted.losses.weight(key),
        )

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Updates metrics with the prediction or the distribution."""
        y, sample_weight, _ = split_index(y, sample_weight)
        losses = self._fitted.losses
        predictions = y_pred
        if losses.is_one:
            predictions = split_output(y_pred)[0]
        elif isinstance(y_pred, dict):
            predictions = {k: split_output(v)[0] for k, v in y_pred.items()}
        if not self._fitted.is_counted:
            # A training step of the user computed the loss in another way.
            losses.count_batch(y, y_pred, sample_weight)
        self._fitted.is_counted = False
        with contextlib.ExitStack() as counted:
            for _, metric, _ in losses.metrics:
                counted.enter_context(metric.already_counted())
            return super().compute_metrics(x, y, predictions, sample_weight)
