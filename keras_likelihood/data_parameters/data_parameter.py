"""A likelihood parameter with one learned value per training example."""

import dataclasses
import json
import numbers
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_likelihood import constraints, likelihoods
from keras_likelihood.backend.files import Path
from keras_likelihood.backend.processes import gather_replicas, replica_count
from keras_likelihood.backend.registration import FromArguments, serializable
from keras_likelihood.backend.types import Array, Shape, Tensor
from keras_likelihood.data_parameters.sparse_rms_prop import (
    SparseRMSProp,
    SparseSGD,
)
from keras_likelihood.data_parameters.tables import (
    FileTable,
    MemoryTable,
    check_about,
    check_state,
    in_parts,
)
from keras_likelihood.likelihoods.checks import check_argument


class BatchRows(NamedTuple):
    """Clipped row numbers, whether they are in the table, and row states."""

    index: Tensor
    is_inside: Tensor
    state: Tensor

    @property
    def displacement(self) -> Tensor:
        """Distance from the initial value, 0 for rows outside the table."""
        return ops.where(self.is_inside[:, None], self.state[:, 0], 0.0)


class Counts(keras.Variable):
    """Numbers of unknown rows and of non-finite updates in compiled steps."""

    def __init__(self, name: str) -> None:
        super().__init__(
            np.zeros(2, "int32"),
            dtype="int32",
            trainable=False,
            # All replicas count the same joint batch.
            aggregation="only_first_replica",
            name=name,
        )

    def count(self, outside: Tensor, not_finite: Tensor) -> None:
        """Adds masks `(batch,)`."""
        marks = ops.cast(ops.stack([outside, not_finite]), "int32")
        self.assign(ops.convert_to_tensor(self) + ops.sum(marks, axis=1))

    def raise_any(self, name: str | None, num_rows: int) -> None:
        """Resets, and raises an error if there were invalid entries."""
        outside, not_finite = ops.convert_to_numpy(self)
        self.assign(np.zeros(2, "int32"))
        if outside:
            raise ValueError(
                f"The data {name} has rows 0 to {num_rows - 1}. "
                "Set `num_examples` to the size of the whole training set, or "
                "number the examples from 0. Other indices were ignored. "
                f"Received: {outside} index(es) outside since training began"
            )
        if not_finite:
            raise ValueError(
                f"The rows of the data {name} must be finite. Check the inputs "
                "and targets for NaN and infinity, or lower the learning rate "
                "of the model. The affected rows were not changed. Received: "
                f"{not_finite} row(s) that would not be finite"
            )


@serializable
class DataParameter(FromArguments, keras.callbacks.Callback):
    """A likelihood parameter with one learned value per training example.

        value[i] = constraint(constraint^-1(initial) + d[i]),    d[i] learned

    Pass it to a loss as the parameter, and call `fit` with indexed targets:

    ```python
    scale = kl.DataParameter(num_examples=len(x))
    model.compile("adam", loss=kl.losses.NormalLoss(scale=scale))
    model.fit(x, kl.indexed(y))
    worst = scale.values().argsort()[::-1][:20]
    ```

    A step reads and writes only the rows of its batch. `evaluate` and `predict`
    without an index use `fallback`. The rows are saved with the model.

    Args:
        num_examples: number of rows; indices are in [0, num_examples).
        learning_rate: step size. Defaults to that of the optimizer, or to the
            rate of the parameter, such as 0.05 for a scale.
        initial: initial value. Defaults to the likelihood's initial value.
        constraint: map from the reals to the domain. Defaults to the
            constraint of the likelihood.
        dimension: `"scalar"` (one value per example, default), `"channel"`
            or `"element"`.
        fallback: value without an index: `"initial"` (default), or `"mean"`
            of the table at the end of training or at the last validation.
        optimizer: a `SparseRMSProp` with other options, a `SparseSGD`, or
            `None` for the rule of the parameter.
        table: a `FileTable`, or `None` to keep the rows in device memory.
    """

    row_shape: tuple[int, ...]

    def __init__(
        self,
        num_examples: int,
        *,
        learning_rate: float | None = None,
        initial: float | None = None,
        constraint: Any = None,
        dimension: str = "scalar",
        fallback: str = "initial",
        optimizer: SparseRMSProp | SparseSGD | None = None,
        table: FileTable | None = None,
    ) -> None:
        super().__init__()
        _check_count("num_examples", num_examples)
        fits = fallback in ("initial", "mean")
        check_argument("fallback", fallback, fits, "'initial' or 'mean'")
        fits = isinstance(optimizer, SparseRMSProp | SparseSGD | None)
        allowed = "a SparseRMSProp, a SparseSGD or None"
        check_argument("optimizer", optimizer, fits, allowed)
        fits = isinstance(table, FileTable | None)
        check_argument("table", table, fits, "a FileTable or None")
        SparseRMSProp(learning_rate)
        self.num_examples = int(num_examples)
        self.learning_rate, self.initial = learning_rate, initial
        self.constraint = constraint and constraints.get(constraint)
        self.dimension, self.fallback = dimension, fallback
        self.optimizer = optimizer
        self.table: Any = table
        self.name: str | None = None
        self.built = False
        self._likelihood: Any = None
        self._training_thread: int | None = None

    def bind(self, likelihood: Any, name: str) -> "DataParameter":
        """Assigns it to a parameter of a likelihood; returns self."""
        likelihood = likelihoods.get(likelihood)
        first = self._likelihood
        if first is not None and (likelihood, name) != (first, self.name):
            raise ValueError(
                "A DataParameter must not be used for two parameters. Received:"
                f" {self.name!r} of {first.name()}, {name!r} of "
                f"{likelihood.name()}"
            )
        self._likelihood, self.name = likelihood, name
        declared = likelihood.parameter(name)
        self.follows: bool = declared.row_rule == "running_mean"
        self.map = self.constraint or declared.constraint
        self.start = declared.initial if self.initial is None else self.initial
        with np.errstate(over="ignore"):
            origin = self.map.inverse(self.start)
            stored = np.array([self.start, origin], "float32")
        is_finite = np.isfinite(stored).all()
        check_argument("initial", self.initial, is_finite, "finite in float32")
        fits = not (self.follows and self.optimizer)
        allowed = f"None, because the {name} is a running mean"
        check_argument("optimizer", self.optimizer, fits, allowed)
        is_rms_prop = declared.row_rule == "rms_prop"
        usual = SparseRMSProp() if is_rms_prop else SparseSGD()
        rule: Any = self.optimizer or usual
        rate = self.learning_rate or rule.learning_rate or declared.rate
        allowed = "in (0, 1] for a running mean"
        fits = rate <= 1 or not self.follows
        check_argument("learning_rate", rate, fits, allowed)
        self._rule: Any = dataclasses.replace(rule, learning_rate=rate)
        return self

    def build(self, prediction_shape: Shape) -> None:
        """Creates the table for predictions of shape `(batch, ...)`."""
        shape = self._likelihood.shape_of(
            self.name, prediction_shape, self.dimension
        )
        if None in shape or (self.built and shape != self.row_shape):
            rows = self.row_shape if self.built else "a fixed shape"
            raise ValueError(
                f"The data {self.name} of dimension {self.dimension!r} needs "
                f"predictions that fit rows of {rows}. "
                f"Received: prediction of shape {tuple(prediction_shape)}"
            )
        if self.built:
            return
        name, size = f"data_{self.name}", int(np.prod(shape))
        repeats = size % np.size(self.start) == 0
        allowed = f"one number, or as many as the {size} of a row"
        check_argument("initial", self.initial, repeats, allowed)
        # JAX numbers rows with 32 bits.
        fits = keras.backend.backend() != "jax" or self.num_examples < 2**31
        allowed = "below 2**31 on JAX"
        check_argument("num_examples", self.num_examples, fits, allowed)
        rows = (self.num_examples, len(self._rule.columns), size)
        # The entries of a vector are adjacent in a row, so vectors repeat.
        self._origin = np.resize(self.map.inverse(self.start), shape)
        if self.table is None:
            self.table = MemoryTable(rows, name)
        else:
            self.table = self.table.build(rows, name, self._about())
        self._mean = keras.Variable(
            np.resize(np.float32(self.start), (size,)),
            trainable=False,
            autocast=False,
            name=f"{name}_mean",
        )
        self._refusals = Counts(f"{name}_refusals")
        self.row_shape, self.built = shape, True

    def _about(self) -> dict[str, Any]:
        """What distinguishes the rows from those of another parameter."""
        return {
            "columns": list(self._rule.columns),
            "likelihood": self._likelihood.name(),
            "parameter": self.name,
            "dimension": self.dimension,
            "initial": np.asarray(self.start, "float64").tolist(),
            "constraint": repr(self.map),
        }

    def _require_built(self) -> None:
        if not self.built:
            raise ValueError(
                "A DataParameter has no table until a model is compiled with "
                "it, or `loss.build(shape)` is called. "
                "Received: a DataParameter without a table"
            )

    @property
    def variables(self) -> list[Any]:
        """The saved variables: the table, its mean and counters."""
        self._require_built()
        return [*self.table.variables, self._mean, self._refusals]

    def saved(self) -> dict[str, Array]:
        """Arrays for the file of a model: the rows, and what they are."""
        about = np.frombuffer(json.dumps(self._about()).encode(), "uint8")
        # The rows of a file need not fit in memory.
        return {"about": about, "rows": self.table.view()}

    def restore(self, saved: dict[str, Array]) -> None:
        """Assigns the result of `saved`, after checking it."""
        path = f"The saved data {self.name}"
        about = json.loads(np.asarray(saved["about"], "uint8").tobytes())
        check_about(self._about(), about, path)
        rows, shape = saved["rows"], self.table.shape
        if np.shape(rows) != shape:
            raise ValueError(
                f"{path} belongs to another model or to another number of "
                "examples. If there are new examples, load it with the old "
                "number first and then call `append`. Expected: rows of "
                f"shape {shape}. Received: {np.shape(rows)}"
            )
        check_state(in_parts(rows), self._rule.columns, path)
        self.table.assign(rows)
        self.update_mean()

    def require_rows(self, index: Tensor) -> None:
        """Raises an error if a training batch has no index."""
        if index is None:
            raise ValueError(
                f"A data {self.name} needs the index of each example. Call "
                "`fit` with `kl.indexed(y)`, or with `kl.indexed(dataset)` "
                "before it is shuffled. Received: targets without an index"
            )

    def read(self, index: Tensor) -> BatchRows:
        """The rows with the given numbers, integers `(batch,)`."""
        self._require_built()
        if not keras.backend.is_int_dtype(index.dtype):
            # When Keras builds a model under tf.distribute, it passes the
            # mean of a batch over the replicas.
            index = ops.cast(index, "int32")
        largest = np.iinfo(keras.backend.standardize_dtype(index.dtype)).max
        last = min(self.num_examples - 1, int(largest))
        inside = ops.clip(index, 0, last)
        is_inside = ops.equal(inside, index)
        return BatchRows(inside, is_inside, self.table.read(inside))

    def value_at(self, displacement: Tensor) -> Tensor:
        """Values `(batch, *row_shape)` for displacements `(batch, size)`."""
        rows = ops.reshape(displacement, (-1, *self.row_shape))
        origin = ops.convert_to_tensor(self._origin, dtype=rows.dtype)
        return self.map(origin + rows)

    def fallback_value(self) -> Tensor:
        """The value without an index, `(1, *row_shape)`."""
        if not self.built:
            return self.start
        return ops.reshape(self._mean, (1, *self.row_shape))

    def distance(self, rows: BatchRows, distribution: Any) -> Tensor:
        """Distance from the followed values, as the gradient of a mean."""
        own = rows.displacement
        aim = ops.stop_gradient(distribution.followed(self.name))
        away = own - ops.cast(ops.reshape(aim, ops.shape(own)), own.dtype)
        count = ops.shape(own)[0] * replica_count()
        return away / ops.cast(count, own.dtype)

    def move(self, rows: BatchRows, gradient: Tensor) -> None:
        """Updates rows by the gradient `(batch, size)` or the `distance`."""
        index, inside, state = rows
        if replica_count() > 1:
            # Every replica applies the step of the joint batch to its copy.
            parts = index, gradient, ops.cast(inside, "int32")
            index, gradient, flags = map(gather_replicas, parts)
            inside = ops.cast(flags, "bool")
            state = self.table.read(index)
        state, refused = self._rule.step(state, gradient, index, inside)
        self.table.write(index, state)
        self._refusals.count(ops.logical_not(inside), refused)

    def values(self, index: Any = None) -> Array:
        """The learned values, `(rows,)` for scalars, otherwise `(rows, ...)`.

        Args:
            index: row numbers, a mask or a slice, as for `values()[index]`.
                Defaults to all rows.
        """
        state, shape = self.state(index), self.row_shape
        if self.dimension == "scalar":
            shape = shape[-1:] if shape[-1] > 1 else ()
        return self._to_values(state).reshape((*state.shape[:-2], *shape))

    def state(self, index: Any = None) -> Array:
        """The stored rows of the table, `(rows, columns, size)`.

        The columns are the displacement from the initial value, before the
        constraint, and the state of the optimizer. See `values` for `index`.
        """
        rows = np.array(_select(self._view(), index))
        part = rows.reshape(-1, *self.table.shape[1:])
        path = getattr(self.table, "path", f"The data {self.name}")
        check_state([part], self._rule.columns, path)
        return rows

    def _to_values(self, state: Array) -> Array:
        # A copy, because PyTorch warns about read-only arrays.
        rows = ops.convert_to_tensor(np.array(state[..., 0, :]))
        return np.asarray(ops.convert_to_numpy(self.value_at(rows)))

    def _view(self) -> Array:
        """All rows, on the host, without a copy where possible."""
        self._require_built()
        is_own = self._training_thread in (None, threading.get_ident())
        if keras.backend.backend() == "jax" and not is_own:
            # A step of JAX takes the arrays of the model.
            raise RuntimeError(
                "On JAX another thread cannot read the rows while `fit` runs. "
                "Read them in a callback. Received: a call during `fit`"
            )
        # On JAX reading `model` updates the variables.
        _ = self.model
        return np.asarray(self.table.view())

    def update_mean(self) -> None:
        """Updates the mean, in one pass, if it is the fallback."""
        if self.fallback == "mean":
            parts = map(self._to_values, in_parts(self._view()))
            total: Any = sum(values.sum(0, "float64") for values in parts)
            self._mean.assign((total / self.num_examples).reshape(-1))

    def append(self, count: int) -> "DataParameter":
        """Adds `count` rows at the initial value at the end; returns self."""
        _check_count("count", count)
        rows = self._view()
        return self._replace_table(len(rows) + int(count), [rows])

    def keep(self, index: Any) -> "DataParameter":
        """Keeps rows, in the order of `index` (see `values`); returns self."""
        numbers = _select(np.arange(self.num_examples), index)
        fits, shape = numbers.ndim == 1 and len(numbers), numbers.shape
        allowed = "one-dimensional and select at least one row"
        check_argument("index", f"rows of shape {shape}", fits, allowed)
        parts = in_parts(self._view(), numbers)
        return self._replace_table(len(numbers), parts)

    def _replace_table(
        self, count: int, parts: Iterable[Array], table: Any = None
    ) -> "DataParameter":
        """Fills a table, by default of this kind, with `parts` and zeros."""
        if self._training_thread is not None:
            raise ValueError(
                "The table must not be changed while `fit` runs. "
                "Received: a change while `fit` runs"
            )
        self.table.close()
        self.table = (table or self.table).resized(count, parts)
        self.num_examples = count
        self.update_mean()
        if (model := self.model) is not None:
            # Compiled steps refer to the old table.
            model.train_function = model.test_function = None
            model.predict_function = None
        return self

    def to_file(self, path: Path) -> "DataParameter":
        """Moves the rows to the `.npy` file of a `FileTable`; returns self.

        An existing table of this parameter is replaced. Any other existing file
        is an error. The table of a loaded model is always in memory.
        """
        rows = self._view()
        table = FileTable(path).build(rows.shape, "data_", self._about())
        return self._replace_table(len(rows), [rows], table)

    def check(self) -> None:
        """Raises an error if steps since the last `check` had invalid rows.

        Call it in your own training loop, as `fit` does.
        """
        self._require_built()
        # On JAX reading `model` updates the variables.
        _ = self.model
        self.table.raise_error()
        self._refusals.raise_any(self.name, self.num_examples)

    def close(self) -> None:
        """Closes the file of a table on disk. `fit` does this at its end."""
        self._training_thread = None
        if self.built:
            self.table.close()

    def on_train_begin(self, logs: Any = None) -> None:
        self._require_built()
        if self not in getattr(self.model, "data_parameters", {}).values():
            raise ValueError(
                f"This data {self.name} is not in the loss of the trained "
                "model. Compile a `LikelihoodModel` with it. "
                f"Received: {type(self.model).__name__}"
            )
        self._refusals.assign(np.zeros(2, "int32"))
        self.table.open_for_training()
        self._steps, self._next_check = 0, 1
        self._training_thread = threading.get_ident()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.table.raise_error()
        # Checks become rarer, because on JAX they wait for the device.
        if self._steps == self._next_check:
            self.check()
            self._next_check *= 8
        self._steps += 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.check()
        self.table.flush()

    def on_test_begin(self, logs: Any = None) -> None:
        self.update_mean()

    on_train_end = on_test_begin

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config["initial"] = np.asarray(self.initial).tolist()
        # Loading a model must not access files named in the model file.
        config["table"] = None
        return dict(keras.saving.serialize_keras_object(config))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "DataParameter":
        return cls(**keras.saving.deserialize_keras_object(config))


def _check_count(name: str, value: Any) -> None:
    is_number = isinstance(value, numbers.Real) and value % 1 == 0
    check_argument(name, value, is_number and value > 0, "a whole number > 0")


def _select(rows: Array, index: Any) -> Array:
    """`rows[index]`, all rows for `None`."""
    if index is None:
        return rows
    if isinstance(index, list | tuple):
        # An empty list would be an array of floats.
        index = np.asarray(index, None if len(index) else "int64")
    try:
        return np.asarray(rows[index])
    except IndexError as error:
        raise IndexError(
            f"`index` must be row numbers from 0 to {len(rows) - 1}, a mask "
            f"of {len(rows)} rows or a slice. Received: {error}"
        ) from error
