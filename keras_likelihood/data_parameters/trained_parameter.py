"""The side of a data parameter that losses, models and `fit` see."""

import contextlib

import keras
import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.backend.summaries import write_histogram
from keras_likelihood.data_parameters.device_table import DeviceTable
from keras_likelihood.data_parameters.file_table import FileTable
from keras_likelihood.data_parameters.numbered_batches import carries_index
from keras_likelihood.data_parameters.parameter_rows import (
    ParameterRows,
    Rows,
)
from keras_likelihood.data_parameters.row_prior import RowPrior


class TrainedParameter(keras.callbacks.Callback):
    """Has the table of a `DataParameter` and looks after it in `fit`.

    A loss binds it and builds it, a model enters `batch` around the loss,
    and between the steps it reports what they refused.
    """

    def __init__(self):
        super().__init__()
        self._likelihood = None
        self.name: str | None = None
        self.rows = None
        self._confirmed = True
        self._steps, self._next_check = 0, 1

    def bind(self, likelihood, name: str) -> "TrainedParameter":
        """Says which parameter of which likelihood this is; returns self."""
        likelihood = likelihoods.get(likelihood)
        bound = (likelihood, name)
        known = self._likelihood
        if known is not None and bound != (known, self.name):
            raise ValueError(
                "A DataParameter stands for one parameter of one likelihood. "
                f"Received: {name!r} of {likelihood.name()} for the "
                f"{self.name!r} of {known.name()}"
            )
        self._likelihood, self.name = bound
        declared = likelihood.parameter(name)
        self._constraint = self.constraint or declared.constraint
        self.start = declared.initial if self.initial is None else self.initial
        self._constraint.inverse(self.start)
        if declared.is_followed and self.prior_scale is not None:
            raise ValueError(
                f"The {name} of {likelihood.name()} is a running mean, which "
                f"has no prior. Received: prior_scale={self.prior_scale}"
            )
        self.optimizer = self._rule(declared)
        return self

    @property
    def built(self) -> bool:
        return self.rows is not None

    def build(self, prediction_shape):
        """Makes the table for predictions of this shape, batch included."""
        shape = self._likelihood.shape_of(
            self.name, prediction_shape, self.dimension
        )
        if None in shape or (self.built and shape != self.rows.shape):
            rows = self.rows.shape if self.built else "a fixed shape"
            raise ValueError(
                f"The data {self.name} of dimension {self.dimension!r} has "
                f"rows of {rows}, which the prediction must fit. "
                f"Received: prediction of shape {tuple(prediction_shape)}"
            )
        if self.built:
            return
        name = f"data_{self.name}"
        declared = self._likelihood.parameter(self.name)
        rows = (self.num_examples, self.optimizer.slots, int(np.prod(shape)))
        table = (
            DeviceTable(*rows, name=name, shard=self.shard)
            if self.store is None
            else self._file_table(rows, name)
        )
        self.rows = ParameterRows(
            table,
            self.optimizer,
            shape=shape,
            constraint=self._constraint,
            initial=self.start,
            name=name,
            follows=self.name if declared.is_followed else None,
            prior=self._prior(rows[-1], name),
        )

    def _prior(self, size, name):
        if self.prior_scale is None:
            return None
        rate = self.optimizer.learning_rate
        return RowPrior(self.prior_scale, self.row_sizes, size, rate, name)

    def _file_table(self, rows, name):
        owner = {
            "likelihood": self._likelihood.name(),
            "parameter": self.name,
            "dimension": self.dimension,
            "initial": np.asarray(self.start, "float64").tolist(),
            "constraint": repr(self._constraint),
        }
        path = self.store if self._confirmed else None
        return FileTable(
            path,
            *rows,
            name=name,
            owner=owner,
            sync=self.sync,
            batches_ahead=self.batches_ahead,
        )

    @property
    def variables(self) -> list:
        """What a model saves: the table and the mean of its values."""
        return self._built_rows().variables

    @property
    def follows(self) -> bool:
        """Whether rows are running means, and do not descend a gradient."""
        return self._built_rows().follows is not None

    def require_rows(self, index):
        """Raises if a batch that trains has no index."""
        if index is None:
            raise self._missing_index()

    def read(self, index) -> Rows:
        """The rows of a batch.

        Args:
            index: row numbers `(batch,)`, integers.
        """
        rows = self._built_rows()
        if not self.is_open:
            rows.table.require_path()
        return rows.read(index)

    def value_at(self, displacement):
        """The parameter at displacements `(batch, size)` of rows."""
        return self._built_rows().value_at(displacement)

    def fallback_value(self):
        """The parameter of examples without an index."""
        if self.fallback == "mean" and self.built:
            return self.rows.mean_value()
        return self.start

    def distance(self, rows: Rows, distribution):
        """How far rows are from what they follow."""
        return self._built_rows().distance(rows, distribution)

    def move(self, rows: Rows, gradient, weight=None):
        """Takes a step with the rows of a batch and writes them back."""
        self._built_rows().move(rows, gradient, weight)

    def require_index(self, x, y=None):
        """Refuses data of `fit` that is seen to carry no index.

        An error inside a traced step takes a model on JAX its variables.
        """
        if carries_index(x, y) is False:
            raise self._missing_index()

    def _missing_index(self):
        return ValueError(
            f"Training with a data {self.name} needs to know which "
            "example is which: give `fit` the targets as "
            "`kl.indexed(y)` or the dataset, before it is shuffled, as "
            "`kl.indexed(dataset)`. Received: targets without an index"
        )

    def _built_rows(self):
        if not self.built:
            raise ValueError(
                "A DataParameter gets its table from the loss and model it "
                "is compiled with; with a subclassed model, call "
                "`loss.build(prediction_shape)` first. "
                "Received: one that no compiled loss has"
            )
        return self.rows

    def on_train_begin(self, logs=None):
        self._built_rows()
        if self not in getattr(self.model, "data_parameters", {}).values():
            raise ValueError(
                f"This data {self.name} is not in the loss of the model that "
                "trains; compile a `LikelihoodModel` with it. "
                f"Received: {type(self.model).__name__}"
            )
        self.rows.refusals.reset()
        self.rows.table.open_for_training()
        self._steps, self._next_check = 0, 1

    def on_train_batch_begin(self, batch, logs=None):
        with self._closing_on_error():
            self.rows.table.raise_error()
        # Early and seldom: on JAX a look at the state waits for the device.
        if self._steps == self._next_check:
            self._check_model()
            self._next_check *= 8
        self._steps += 1

    def on_epoch_end(self, epoch, logs=None):
        self._check_model()
        self.rows.table.flush()
        if self.tensorboard is not None:
            write_histogram(
                self.tensorboard, f"data_{self.name}", self.values(), epoch
            )

    def on_test_begin(self, logs=None):
        if self.fallback == "mean" and self.is_open:
            self._built_rows().update_mean()

    def on_train_end(self, logs=None):
        if self.fallback == "mean":
            self.rows.update_mean()
        self.close()

    def _check_model(self):
        # Asking for the model brings its variables up to date on JAX.
        if self.model is not None:
            with self._closing_on_error():
                self.check()

    @contextlib.contextmanager
    def _closing_on_error(self):
        """Keras tells no callback that `fit` ended in an error."""
        try:
            yield
        except Exception:
            with contextlib.suppress(OSError):
                self.close()
            raise
