"""A model that trains and saves what its losses learn."""

import contextlib
import inspect
import os

import keras

from keras_likelihood.backend.kept_values import forget_gradients
from keras_likelihood.backend.processes import alone, summed
from keras_likelihood.backend.whole_files import replacing
from keras_likelihood.models.counted_metrics import CountedMetrics
from keras_likelihood.models.loss_parameters import LossParameters


@contextlib.contextmanager
def whole_file(filepath, options: dict):
    """Yields where to save, for `filepath` to be replaced in one move.

    Folders, remote paths, shards and files that must not be replaced are left
    to Keras.
    """
    path = str(filepath)
    one_file = path.endswith((".keras", ".weights.h5")) and "://" not in path
    folder = os.path.dirname(os.path.realpath(path))
    if (
        not one_file
        or not options.get("overwrite", True)
        or options.get("max_shard_size")
        or not os.path.isdir(folder)
    ):
        yield filepath
        return
    with replacing(filepath) as temporary:
        yield str(temporary)


class LossOwner(keras.Model):
    """A model that also holds the variables of its losses.

    These variables are trained and saved, and they are part of checkpoints.
    Keras does not track them, because a model that contains this model must
    not find them.
    """

    def __new__(cls, *args, **kwargs):
        model = super().__new__(cls)
        model.__dict__["_loss_parameters"] = LossParameters(
            name="loss_parameters"
        )
        model.__dict__["counted"] = CountedMetrics()
        return model

    @property
    def loss_parameters(self) -> LossParameters:
        """What the losses learn, and what earlier losses have learned."""
        return self.__dict__["_loss_parameters"]

    @property
    def metrics(self):
        return super().metrics + self.counted.all()

    def get_metrics_result(self):
        """As `keras.Model.get_metrics_result`, over all joint processes."""
        counted = [v for m in self.metrics for v in m.variables]
        with summed(counted):
            return super().get_metrics_result()

    @property
    def trainable_variables(self):
        return super().trainable_variables + self._loss_variables(True)

    @property
    def non_trainable_variables(self):
        return super().non_trainable_variables + self._loss_variables(False)

    @property
    def trainable_weights(self):
        return super().trainable_weights + self._loss_variables(True)

    @property
    def non_trainable_weights(self):
        return super().non_trainable_weights + self._loss_variables(False)

    def _loss_variables(self, trainable):
        held = self.loss_parameters.variables
        return [
            v for v in held if (v.trainable and self.trainable) is trainable
        ]

    def get_weights(self):
        """Values of the layers' weights, then of what the losses learn."""
        held = self.loss_parameters.variables
        return super().get_weights() + [v.numpy() for v in held]

    def set_weights(self, weights):
        """Takes what `get_weights` returns, or the layers' weights alone."""
        held = self.loss_parameters.variables
        count = len(self.weights)
        if held and len(weights) == count + len(held):
            for variable, value in zip(held, weights[count:], strict=True):
                variable.assign(value)
            weights = weights[:count]
        super().set_weights(weights)

    def zero_grad(self, *args, **kwargs):
        """Clears the gradients of the losses' variables too, for PyTorch."""
        super().zero_grad(*args, **kwargs)
        forget_gradients(self.loss_parameters.variables)

    def named_parameters(self, *args, **kwargs):
        """Those of PyTorch's modules, and what the losses learn."""
        yield from super().named_parameters(*args, **kwargs)
        for variable in self._loss_variables(True):
            yield variable.path, variable.value

    def save(self, filepath, *args, **kwargs):
        """Like `keras.Model.save`; writes a whole file or none.

        An `.h5` file cannot hold what the loss has learned.
        """
        legacy = str(filepath).endswith((".h5", ".hdf5"))
        if legacy and self.loss_parameters.variables:
            raise ValueError(
                "An .h5 file cannot hold what the loss has learned; save as "
                f"'.keras'. Received: {os.fspath(filepath)!r}"
            )
        with alone(), whole_file(filepath, kwargs) as target:
            return super().save(target, *args, **kwargs)

    def save_weights(self, filepath, *args, **kwargs):
        """Like `keras.Model.save_weights`; writes a whole file or none."""
        with alone(), whole_file(filepath, kwargs) as target:
            return super().save_weights(target, *args, **kwargs)

    def summary(self, *args, **kwargs):
        """As `keras.Model.summary`, with what the losses learn."""
        bound = inspect.signature(super().summary).bind(*args, **kwargs)
        super().summary(*args, **kwargs)
        show = bound.arguments.get("print_fn") or print
        for line in self.loss_parameters.describe():
            show(f" {line}")
