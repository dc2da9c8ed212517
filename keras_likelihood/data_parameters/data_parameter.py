"""A likelihood parameter with a value of its own for every example."""

import os
from typing import Any

import keras
import numpy as np

from keras_likelihood import constraints
from keras_likelihood.backend.registration import serializable
from keras_likelihood.data_parameters.row_prior import checked_sizes
from keras_likelihood.data_parameters.running_mean import RunningMean
from keras_likelihood.data_parameters.saved_rows import read_rows
from keras_likelihood.data_parameters.sparse_rms_prop import SparseRMSProp
from keras_likelihood.data_parameters.trained_parameter import (
    TrainedParameter,
)


@serializable
class DataParameter(TrainedParameter):
    """One learned value of a likelihood parameter per training example.

        value[i] = constraint(constraint^-1(initial) + d[i]),    d[i] learned

    It is given to a loss as the parameter, with targets that carry the
    number of their example:

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
    the process dies. A loaded model knows the name of that file and touches
    nothing before `open` confirms it.

    Args:
        num_examples: rows of the table; indices lie in [0, num_examples).
        learning_rate: step size. Defaults to what the likelihood says of the
            parameter, such as 0.05 for a scale.
        rho: decay of the mean square gradient. Defaults to 0.9.
        epsilon: added to the mean square. Defaults to 1e-16.
        momentum: in [0, 1). Defaults to 0.
        weight_decay: pull of visited rows towards the initial value,
            relative to the learning rate. Defaults to 0.
        clipnorm: largest 2-norm of a batch's gradient, or `None`.
        prior_scale: standard deviation of a normal prior of the rows around
            a learned centre, before the constraint, or `None` (default) for
            no prior. Rows with few examples then stay near the centre: use
            it if one row stands for many examples, such as those of one
            annotator. Not with `store`.
        row_sizes: number of training examples of each row, needed by the
            prior: 1, or an array such as `np.bincount(annotator)`.
        dimension: `"scalar"` (one value per example, default), `"channel"`
            or `"element"`.
        initial: value to start from. Defaults to the likelihood's own.
        constraint: map from the reals to the domain. Defaults to the
            likelihood's own.
        fallback: value without an index: `"initial"` (default), or `"mean"`
            of the table as of the end of training or the last validation.
        store: path of a file for a table that outgrows memory, or `None`.
        sync: whether a table on disk waits for the disk with every batch,
            to survive a power failure. Defaults to False.
        batches_ahead: batches whose rows a table on disk has on the device
            while they train (JAX). A thread reads the next ones meanwhile
            and writes those before. If the process dies, the rows of up to
            twice as many batches are as they were before. With 0 each batch
            is in the file before the next one trains. Defaults to `None`: 8
            on a GPU, else 0. With `sync` it is 0.
        shard: axis of the device mesh of `keras.distribution` (JAX) that the
            rows are laid out over, such as `"batch"`: each device then has
            its share of the table. Defaults to `None`: what the `LayoutMap`
            says of `data_` and the parameter's name, else a copy on every
            device. On a single device it changes nothing.
        tensorboard: directory for a histogram of the values after every
            epoch (needs TensorFlow), or `None`. A loaded model has none
            until you set it.
    """

    def __init__(
        self,
        num_examples: int,
        *,
        learning_rate: float | None = None,
        rho: float = 0.9,
        epsilon: float = 1e-16,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        clipnorm: float | None = None,
        prior_scale: float | None = None,
        row_sizes=None,
        dimension: str = "scalar",
        initial: float | None = None,
        constraint=None,
        fallback: str = "initial",
        store: str | None = None,
        sync: bool = False,
        batches_ahead: int | None = None,
        shard: str | None = None,
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
        self.learning_rate = learning_rate
        self._descent: dict[str, Any] = {
            "rho": rho,
            "epsilon": epsilon,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "clipnorm": clipnorm,
        }
        rate = 1.0 if learning_rate is None else learning_rate
        SparseRMSProp(learning_rate=rate, **self._descent)
        self.prior_scale = prior_scale
        self.row_sizes = checked_sizes(
            prior_scale, row_sizes, self.num_examples
        )
        self.dimension = dimension
        self.initial = initial
        self.constraint = constraint and constraints.get(constraint)
        self.fallback = fallback
        if store is not None and prior_scale is not None:
            raise ValueError(
                "A table on disk has no prior: its centre would not be in the "
                f"file. Received: store={store!r}, prior_scale={prior_scale}"
            )
        self.store = store if store is None else os.path.abspath(store)
        self.sync = sync
        if batches_ahead is not None and not int(batches_ahead) >= 0:
            raise ValueError(
                "`batches_ahead` must be a whole number >= 0 or None. "
                f"Received: {batches_ahead}"
            )
        self.batches_ahead = batches_ahead
        self.shard = shard
        self.tensorboard = tensorboard

    def _rule(self, declared):
        rate = self.learning_rate
        rate = declared.rate if rate is None else rate
        if declared.is_followed:
            return RunningMean(rate)
        return SparseRMSProp(learning_rate=rate, **self._descent)

    @property
    def is_open(self) -> bool:
        """False for a table on disk that a loaded model names, until `open`."""
        return self._confirmed

    def open(self, path: str, *, create: bool = False) -> "DataParameter":
        """Says where the table on disk is; returns self.

        ```python
        model = keras.saving.load_model("model.keras")
        model.data_parameters["scale"].open("scale.rows")
        ```

        Args:
            path: of the file the model was trained with, or of a copy.
            create: whether a missing file is a new table, to train from the
                initial value. Defaults to False: it is an error.
        """
        path = os.path.abspath(path)
        if self.store is None:
            raise ValueError(
                "`open` is for a table on disk, and this one is in memory. "
                f"Received: {path!r}"
            )
        if self.built:
            self.rows.table.open(path, create=create)
        elif not create and not os.path.exists(path):
            raise FileNotFoundError(
                f"There is no table to open. Received: {path!r}"
            )
        self.store, self._confirmed = path, True
        return self

    def check(self):
        """Raises if steps since the last `check` refused something.

        A compiled step cannot raise. `fit` looks for itself; in a training
        loop of your own, call this now and then.
        """
        rows = self._built_rows()
        rows.table.raise_error()
        rows.table.settle()
        rows.refusals.raise_any(self.name, self.num_examples)

    def close(self):
        """Writes what is left and closes the file of a table on disk.

        `fit` does so at its end. The file is opened again when it is needed.
        """
        if self.built:
            self.rows.table.close()

    def values(self, index=None) -> np.ndarray:
        """The learned values, as NumPy.

        Args:
            index: row numbers. Defaults to all rows.

        Returns:
            `(rows,)` for a scalar, else `(rows, ...)`.
        """
        values = self._built_rows().values(index)
        if self.dimension != "scalar":
            return values
        size = values.shape[-1]
        return values.reshape(-1 if size == 1 else (-1, size))

    def save(self, path: str):
        """Writes the table and the state of its optimizer to a file.

        A table in memory becomes an `.npz`; one on disk is copied as it is
        between two batches, and nothing at `path` is replaced. A table with
        a prior is saved with its model only.
        """
        self._refuse_prior()
        self._built_rows().table.save(path)

    def load(self, path: str):
        """Reads what `save` or a `store` of 0.1.0 wrote into this table."""
        self._refuse_prior()
        table = self._built_rows().table
        table.assign(read_rows(path, table.shape))
        self.rows.update_mean()

    def _refuse_prior(self):
        if self.prior_scale is not None:
            raise ValueError(
                "A table with a prior is saved and loaded with its model, as "
                "its rows mean nothing without the centre. "
                f"Received: prior_scale={self.prior_scale}"
            )

    def prefetch(self, index):
        """Says which rows are needed next; a table on disk reads them."""
        if self.is_open:
            self._built_rows().table.prefetch(index)

    def get_config(self) -> dict:
        return {
            "num_examples": self.num_examples,
            "learning_rate": self.learning_rate,
            **self._descent,
            "prior_scale": self.prior_scale,
            "row_sizes": None
            if self.row_sizes is None
            else self.row_sizes.tolist(),
            "dimension": self.dimension,
            "initial": self.initial,
            "constraint": keras.saving.serialize_keras_object(self.constraint),
            "fallback": self.fallback,
            "store": self.store,
            "sync": self.sync,
            "batches_ahead": self.batches_ahead,
            "shard": self.shard,
            "tensorboard": self.tensorboard,
        }

    @classmethod
    def from_config(cls, config):
        # A config may come from a stranger: it names files, and the person
        # who loads it says which of them may be touched.
        parameter = cls(**{**config, "tensorboard": None})
        parameter._confirmed = parameter.store is None
        return parameter
