"""A likelihood parameter with a value of its own for every example."""

import contextlib
import dataclasses
import os

import keras
import numpy as np
from keras import ops

from keras_likelihood import constraints, likelihoods
from keras_likelihood.backend.summaries import write_histogram
from keras_likelihood.data_parameters.device_table import DeviceTable
from keras_likelihood.data_parameters.mapped_table import MappedTable
from keras_likelihood.data_parameters.parameter_rows import ParameterRows
from keras_likelihood.data_parameters.sparse_rms_prop import SparseRMSProp
from keras_likelihood.registration import serializable


@serializable
class DataParameter(keras.callbacks.Callback):
    """One learned value of a likelihood parameter per training example.

        value[i] = constraint(constraint^-1(initial) + d[i]),    d[i] learned

    It is given to a loss as the parameter and to `fit` as a callback, with
    targets that carry the number of their example:

    ```python
    scale = kl.DataParameter(num_examples=len(x), learning_rate=0.05)
    model.compile("adam", loss=kl.losses.NormalLoss(scale=scale))
    model.fit(x, kl.indexed(y), callbacks=[scale])
    worst = scale.values().argsort()[::-1][:20]
    ```

    A step costs as much as the batch, whatever `num_examples`: only the rows
    of the batch are read, differentiated, moved by `SparseRMSProp` and
    written. Training without an index is an error. `evaluate` and `predict`
    without one use `fallback`; with one they use the rows as they are.

    The table is saved with the model. With `store`, it lives in a file
    instead, which training continues from; see `RowFile` for what holds when
    the process dies.

    Args:
        num_examples: rows of the table; indices lie in [0, num_examples).
        learning_rate: step size. Defaults to 0.05.
        rho: decay of the mean square gradient. Defaults to 0.9.
        epsilon: added to the mean square. Defaults to 1e-16.
        momentum: in [0, 1). Defaults to 0.
        weight_decay: pull of visited rows towards the initial value,
            relative to the learning rate. Defaults to 0.
        clipnorm: largest 2-norm of a batch's gradient, or `None`.
        dimension: `"scalar"` (one value per example, default), `"channel"`
            or `"element"`.
        initial: value to start from. Defaults to the likelihood's own.
        constraint: map from the reals to the domain. Defaults to the
            likelihood's own.
        fallback: value without an index: `"initial"` (default), or `"mean"`
            of the table as of the end of training or the last validation.
        store: path of a file for a table that outgrows memory, or `None`.
        tensorboard: directory for a histogram of the values after every
            epoch (needs TensorFlow), or `None`.
    """

    def __init__(
        self,
        num_examples: int,
        *,
        learning_rate: float = 0.05,
        rho: float = 0.9,
        epsilon: float = 1e-16,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        clipnorm: float | None = None,
        dimension: str = "scalar",
        initial: float | None = None,
        constraint=None,
        fallback: str = "initial",
        store: str | None = None,
        tensorboard: str | None = None,
    ):
        super().__init__()
        if not num_examples == int(num_examples) > 0:
            raise ValueError(
                "`num_examples` must be a whole number > 0. "
                f"Received: {num_examples}"
            )
        if fallback not in ("initial", "mean"):
            raise ValueError(
                "`fallback` must be 'initial' or 'mean'. "
                f"Received: {fallback!r}"
            )
        self.num_examples = int(num_examples)
        self.optimizer = SparseRMSProp(
            learning_rate=learning_rate,
            rho=rho,
            epsilon=epsilon,
            momentum=momentum,
            weight_decay=weight_decay,
            clipnorm=clipnorm,
        )
        self.dimension = dimension
        self.initial = initial
        self.constraint = constraint and constraints.get(constraint)
        self.fallback = fallback
        self.store = store if store is None else os.path.abspath(store)
        self.tensorboard = tensorboard
        self.name = None
        self.rows = None
        self._attached = False
        self._batches = 0

    def bind(self, likelihood, name: str) -> "DataParameter":
        """Says which parameter of which likelihood this is; returns self."""
        likelihood = likelihoods.get(likelihood)
        bound = (likelihood, name)
        if self.name is not None and bound != (self._likelihood, self.name):
            raise ValueError(
                "A DataParameter stands for one parameter of one likelihood. "
                f"Received: {name!r} of {likelihood.name()} for the "
                f"{self.name!r} of {self._likelihood.name()}"
            )
        self._likelihood, self.name = bound
        declared = likelihood.parameter(name)
        self._constraint = self.constraint or declared.constraint
        self.start = declared.initial if self.initial is None else self.initial
        self._constraint.inverse(self.start)
        return self

    @property
    def built(self) -> bool:
        return self.rows is not None

    def build(self, prediction_shape):
        """Makes the table for predictions of this shape, batch included."""
        shape = self._likelihood.parameter_shape(
            prediction_shape, self.dimension
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
        rows = (self.num_examples, self.optimizer.slots, int(np.prod(shape)))
        table = (
            DeviceTable(*rows, name=name)
            if self.store is None
            else MappedTable(self.store, *rows, name=name)
        )
        self.rows = ParameterRows(
            table,
            self.optimizer,
            shape=shape,
            constraint=self._constraint,
            initial=self.start,
            name=name,
        )

    @property
    def variables(self) -> list:
        """What a model saves: the table and the mean of its values."""
        return self._built_rows().variables

    def batch(self, index, training: bool):
        """The context in which `value` is that of the batch `index`."""
        if index is not None and not (training and not self._attached):
            return self._built_rows().batch(index, training)
        if not training:
            return contextlib.nullcontext()
        if index is None:
            raise ValueError(
                f"Training with a data {self.name} needs to know which "
                "example is which: give `fit` the targets as "
                "`kl.indexed(y)` or the dataset, before it is shuffled, as "
                "`kl.indexed(dataset)`. Received: targets without an index"
            )
        raise ValueError(
            f"`fit` needs the data {self.name} of its loss among the "
            "callbacks, `callbacks=[parameter]`; that of a loaded model is "
            f"`model.data_parameters[{self.name!r}]`. "
            "Received: callbacks without it"
        )

    def value(self):
        """The parameter of the current batch, or the fallback outside one."""
        if self.built and self.rows.displacement is not None:
            return self.rows.value()
        if self.fallback == "mean" and self.built:
            return self.rows.mean_value()
        return self.start

    def values(self, index=None) -> np.ndarray:
        """The learned values, as NumPy.

        Args:
            index: row numbers. Defaults to all rows.

        Returns:
            `(rows,)` for a scalar, else `(rows, ...)`.
        """
        values = self._built_rows().values(index)
        return values.reshape(-1) if self.dimension == "scalar" else values

    def save(self, path: str):
        """Writes the table and the state of its optimizer to an `.npz`."""
        if self.store is not None:
            raise ValueError(
                "A table on disk is its own file; copy that. "
                f"Received: `save` with store={self.store!r}"
            )
        np.savez(path, state=self._built_rows().table.numpy())

    def load(self, path: str):
        """Reads what `save` wrote into this parameter's table."""
        table = self._built_rows().table
        with np.load(path) as archive:
            state = archive["state"]
        if state.shape != table.shape:
            raise ValueError(
                "The file is of another table. Expected: (rows, slots, size) "
                f"{table.shape}. Received: {state.shape}"
            )
        table.assign(state)
        self.rows.update_mean()

    def announce(self, index):
        """Says which rows are needed next; a table on disk reads them."""
        self._built_rows().table.announce(index)

    def on_train_begin(self, logs=None):
        self._built_rows()
        if self not in getattr(self.model, "data_parameters", {}).values():
            raise ValueError(
                f"This data {self.name} is not in the loss of the model that "
                "trains; compile a `LikelihoodModel` with it. "
                f"Received: {type(self.model).__name__}"
            )
        self._attached = True
        self._batches = 0

    def on_train_batch_begin(self, batch, logs=None):
        # Early and seldom: on JAX a look at the state costs a round trip.
        if self._batches & (self._batches - 1) == 0:
            self._refuse_faults()
        self._batches += 1

    def on_epoch_end(self, epoch, logs=None):
        self._refuse_faults()
        self.rows.table.flush()
        if self.tensorboard is not None:
            write_histogram(
                self.tensorboard, f"data_{self.name}", self.values(), epoch
            )

    def on_test_begin(self, logs=None):
        if self.fallback == "mean":
            self._built_rows().update_mean()

    def on_train_end(self, logs=None):
        self._attached = False
        if self.fallback == "mean":
            self.rows.update_mean()

    def _refuse_faults(self):
        if self._batches == 0 or self.model is None:
            return
        faults = int(ops.convert_to_numpy(self.rows.faults))
        if faults:
            self.rows.faults.assign(0)
            raise ValueError(
                f"The data {self.name} has rows 0 to {self.num_examples - 1}; "
                "set `num_examples` to the size of the whole training set, or "
                "number the examples from 0. "
                f"Received: {faults} index(es) outside"
            )

    def _built_rows(self):
        if not self.built:
            raise ValueError(
                "A DataParameter gets its table from the loss and model it "
                "is compiled with. Give the one in the loss to `callbacks`; "
                "with a subclassed model, call `loss.build(prediction_shape)` "
                "first. Received: one that no compiled loss has"
            )
        return self.rows

    def get_config(self) -> dict:
        return {
            "num_examples": self.num_examples,
            **dataclasses.asdict(self.optimizer),
            "dimension": self.dimension,
            "initial": self.initial,
            "constraint": keras.saving.serialize_keras_object(self.constraint),
            "fallback": self.fallback,
            "store": self.store,
            "tensorboard": self.tensorboard,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)
