"""Variables and training step of a likelihood model."""

import contextlib
import inspect
import math
import os
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from keras_likelihood.backend.files import replacing
from keras_likelihood.backend.gradients import value_gradient_and_others
from keras_likelihood.backend.private import UNTRACKED
from keras_likelihood.backend.processes import replica_count, single_process
from keras_likelihood.backend.types import Tensor
from keras_likelihood.losses.batch import Batch
from keras_likelihood.models.compiled import Compiled
from keras_likelihood.models.loss_parameters import LossParameters


def _whole_file(
    filepath: Any, overwrite: bool = True, max_shard_size: Any = None, **_: Any
) -> Any:
    """A context with the path to write, to replace `filepath` atomically.

    Keras itself writes folders, remote paths, shards and files that must not be
    replaced.
    """
    path = str(filepath)
    one_file = path.endswith((".keras", ".weights.h5")) and "://" not in path
    in_folder = os.path.isdir(os.path.dirname(os.path.realpath(path)))
    if one_file and in_folder and overwrite and not max_shard_size:
        return replacing(filepath)
    return contextlib.nullcontext(filepath)


class LikelihoodStep(keras.Model):
    """A model that computes its loss and metrics and trains data parameters.

    It also contains the variables of its losses, which are trained and saved.
    Keras does not track them, because a model that contains this model must
    not find them.
    """

    loss_parameters: LossParameters
    """Learned parameters of the current and of earlier losses."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        model = super().__new__(cls)
        model.__dict__.update(
            loss_parameters=LossParameters(name="loss_parameters"),
            _compiled=Compiled(),
            _called_outputs=None,
        )
        return model

    def __setattr__(self, name: str, value: Any) -> None:
        if name in UNTRACKED:
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @property
    def metrics(self) -> Any:
        own = self._compiled
        return super().metrics + [*own.loss_means.values(), *own.metrics]

    @property
    def trainable_variables(self) -> Any:
        return super().trainable_variables + self._loss_variables(True)

    @property
    def non_trainable_variables(self) -> Any:
        return super().non_trainable_variables + self._loss_variables(False)

    @property
    def trainable_weights(self) -> Any:
        return super().trainable_weights + self._loss_variables(True)

    def _loss_variables(self, trainable: bool) -> list[Any]:
        own, trains = self.loss_parameters.variables, self.trainable
        return [v for v in own if (v.trainable and trains) is trainable]

    def count_params(self) -> int:
        """Number of values in the weights, with those of the losses."""
        own = self.loss_parameters.learned().values()
        sizes = [math.prod(v.shape) for p in own for v in p.trainable_variables]
        return int(super().count_params() + sum(sizes))

    def get_weights(self) -> Any:
        """Values of the layers' weights, then of the losses' parameters."""
        return super().get_weights() + self.loss_parameters.get_weights()

    def set_weights(self, weights: Any) -> None:
        """Sets the result of `get_weights`, or only the layers' weights."""
        count = len(self.weights)
        if len(weights) > count:
            self.loss_parameters.set_weights(weights[count:])
        super().set_weights(weights[:count])

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Clears the gradients of all variables, for PyTorch.

        Keras' method misses the variables of the losses, and all but one of
        several variables with the same path.
        """
        super().zero_grad(*args, **kwargs)
        for variable in self.trainable_variables:
            variable.value.grad = None

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Parameters of PyTorch's modules and of the losses."""
        yield from super().named_parameters(*args, **kwargs)
        for variable in self._loss_variables(True):
            yield variable.path, variable.value

    def save(self, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.save`, but replaces the file atomically.

        An `.h5` file cannot contain the learned parameters of a loss.
        """
        legacy = str(filepath).endswith((".h5", ".hdf5"))
        if legacy and self.loss_parameters.variables:
            raise ValueError(
                "`filepath` must end in '.keras', because an .h5 file cannot "
                "contain the learned parameters of the loss. "
                f"Received: {os.fspath(filepath)!r}"
            )
        with single_process(), _whole_file(filepath, **kwargs) as target:
            return super().save(target, *args, **kwargs)

    def save_weights(self, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.save_weights`, but replaces the file atomically."""
        with single_process(), _whole_file(filepath, **kwargs) as target:
            return super().save_weights(target, *args, **kwargs)

    def summary(self, *args: Any, **kwargs: Any) -> None:
        """As `keras.Model.summary`, with the losses' parameters."""
        bound = inspect.signature(super().summary).bind(*args, **kwargs)
        super().summary(*args, **kwargs)
        show = bound.arguments.get("print_fn") or print
        for line in self.loss_parameters.describe():
            show(f" {line}")

    @property
    def data_parameters(self) -> dict[str, Any]:
        """The `DataParameter`s of the losses, by name."""
        return {
            self._compiled.label(key, name): parameter
            for key, loss in self._compiled.by_key.items()
            for name, parameter in loss.data_parameters.items()
        }

    @property
    def losses_by_output(self) -> dict[Any, Any]:
        """The losses by output, if one of them is a likelihood."""
        return dict(self._compiled.losses)

    def outputs_by_key(self, y_pred: Any) -> Any:
        """The outputs of the model, with the keys of `losses_by_output`."""
        return self._compiled.outputs.of_model(y_pred)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool | None = True,
    ) -> Any:
        """The negative log-likelihood plus the losses added by layers.

        The loss, the metrics and the data parameters share the distribution of
        each output. This method updates the metrics and trains the data
        parameters, so your own training step must call it.
        """
        if not self._compiled.losses:
            return super().compute_loss(
                x, y, y_pred, sample_weight, training=training
            )
        total: Any = 0.0
        outputs = self._each_output(y, y_pred, sample_weight, training)
        for key, batch, value, distribution in outputs:
            self._compiled.count(key, value, batch, distribution)
            total = total + self._weighted(key, value)
        # The losses of all replicas are summed.
        count = replica_count()
        for added in self.losses:
            total = total + ops.cast(ops.sum(added), total.dtype) / count
        return total

    def data_loss(
        self, y: Any, y_pred: Tensor, sample_weight: Any = None
    ) -> Any:
        """The losses of `losses_by_output`, without those added by layers.

        It does not update metrics or train data parameters.
        """
        outputs = self._each_output(y, y_pred, sample_weight, training=False)
        return sum(self._weighted(key, value) for key, _, value, _ in outputs)

    def _weighted(self, key: Any, value: Tensor) -> Tensor:
        weight = self._compiled.loss_weights.get(key)
        return value if weight is None else value * weight

    def _each_output(
        self, y: Any, y_pred: Tensor, sample_weight: Any, training: bool | None
    ) -> Iterator[Any]:
        """Yields the key, `Batch`, loss and distribution of each output."""
        own = self._compiled
        y_pred = own.outputs.of_model(y_pred)
        targets = own.outputs.targets(y, sample_weight)
        for key, loss in own.losses.items():
            target, weight, index = targets[key]
            if key not in own.by_key:
                # A loss of Keras decides on shapes itself.
                value = loss(target, y_pred[key], weight)
                parts = (target, weight, None, None, None, False)
                yield key, Batch(y_pred[key], [], *parts), value, None
                continue
            batch = loss.batch(target, y_pred[key], weight, index)
            factor = own.loss_weights.get(key)
            found = _loss_and_distribution(loss, batch, training, factor)
            yield key, batch, *found

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Tensor, sample_weight: Any = None
    ) -> Any:
        """The results of the metrics, which `compute_loss` has updated."""
        if not self._compiled.losses:
            return super().compute_metrics(x, y, y_pred, sample_weight)
        return self.get_metrics_result()


def _loss_and_distribution(
    loss: Any, batch: Batch, training: bool | None, weight: Any
) -> Any:
    """Computes the loss of one output and trains its data parameters.

    The loss is computed before the rows move and is not multiplied by its
    weight.
    """
    data, index = loss.data_parameters, batch.index
    if training:
        for parameter in data.values():
            parameter.require_rows(index)
    if index is None or not data:
        distribution = loss.distribution(batch.output)
        return loss.of(distribution, batch), distribution
    rows = {name: parameter.read(index) for name, parameter in data.items()}
    moving = [n for n, p in data.items() if not p.follows] if training else []
    start = {name: row.displacement for name, row in rows.items()}

    def objective(*displacements: Any) -> Any:
        """The loss, and the prediction and parameters of the distribution."""
        moved = start | dict(zip(moving, displacements, strict=True))
        values = {name: data[name].value_at(v) for name, v in moved.items()}
        distribution = loss.distribution(batch.output, values)
        return loss.of(distribution, batch), distribution.values()

    value, gradients, parts = value_gradient_and_others(
        objective, [start[name] for name in moving]
    )
    distribution = loss.likelihood(**parts)
    for name, gradient in zip(moving, gradients, strict=True):
        scaled = gradient if weight is None else gradient * weight
        data[name].move(rows[name], scaled)
    for name in set(data) - set(moving) if training else ():
        away = data[name].distance(rows[name], distribution)
        data[name].move(rows[name], away)
    return value, distribution
