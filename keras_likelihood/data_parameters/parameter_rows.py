"""Rows of a parameter table while a batch trains on them."""

from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.rows import (
    gather_replicas,
    replica_count,
    share_of_loss,
)
from keras_likelihood.data_parameters.refusals import Refusals


class Rows(NamedTuple):
    """The rows of one batch, as a step reads them."""

    index: Any
    """Row numbers `(batch,)`, all of which exist."""
    known: Any
    """Booleans `(batch,)`: whether the example has a row."""
    state: Any
    """Displacement and state of the optimizer, `(batch, slots, size)`."""

    @property
    def displacement(self):
        """`(batch, size)`; 0 for an example without a row."""
        return ops.where(self.known[:, None], self.state[:, 0], 0.0)


class ParameterRows:
    """A table of displacements read as values of a likelihood parameter.

        value[i] = constraint(origin + d[i])

    Args:
        table: a `DeviceTable` or `FileTable`.
        optimizer: a `RowRule`.
        shape: of one example's parameter, such as `(1,)`.
        constraint: map from the reals to the domain.
        initial: the value of a row that was never visited.
        name: of the variables.
        follows: the parameter's name if its rows average what the likelihood
            gives as `followed`, else `None`: they descend the gradient.
        prior: a `RowPrior`, or `None`.
    """

    def __init__(
        self,
        table,
        optimizer,
        *,
        shape,
        constraint,
        initial,
        name,
        follows=None,
        prior=None,
    ):
        self.table = table
        self._prior = prior
        self.follows = follows
        self.shape = shape
        self._optimizer = optimizer
        self._constraint = constraint
        # A vector repeats: its entries are next to each other in a row.
        self._origin = np.resize(constraint.inverse(initial), shape)
        self.mean = keras.Variable(
            np.resize(np.float32(initial), table.shape[2:]),
            trainable=False,
            autocast=False,
            name=f"{name}_mean",
        )
        self.refusals = Refusals(name=f"{name}_refusals")

    @property
    def variables(self) -> list:
        prior = [self._prior.state] if self._prior else []
        return [*self.table.variables, self.mean, self.refusals.counts, *prior]

    def read(self, index) -> Rows:
        """The rows of a batch."""
        if not keras.backend.is_int_dtype(index.dtype):
            # When Keras builds a model that tf.distribute replicates, it
            # shows the model the mean of a batch over the replicas.
            index = ops.cast(index, "int32")
        inside = ops.clip(index, 0, self.table.shape[0] - 1)
        known = ops.equal(inside, index)
        return Rows(inside, known, self.table.read(inside))

    def value_at(self, displacement):
        """Values of rows displaced by `(batch, size)`: `(batch, *shape)`."""
        rows = ops.reshape(displacement, (-1, *self.shape))
        origin = ops.convert_to_tensor(self._origin, dtype=rows.dtype)
        if self._prior:
            centre = ops.cast(self._prior.centre, rows.dtype)
            origin = origin + ops.reshape(centre, self.shape)
        return self._constraint(origin + rows)

    def mean_value(self):
        """The stored mean of the table's values, `(1, *shape)`."""
        return ops.reshape(self.mean, (1, *self.shape))

    def distance(self, rows: Rows, distribution):
        """How far the rows are from what they follow, `(batch, size)`."""
        current = rows.displacement
        aim = ops.stop_gradient(distribution.followed(self.follows))
        aim = ops.reshape(aim, ops.shape(current))
        return current - ops.cast(aim, current.dtype)

    def move(self, rows: Rows, by_row, weight=None):
        """Moves the rows of a batch and writes them back.

        Args:
            rows: what `read` returned.
            by_row: gradient of the loss, or what the rows are to follow,
                `(batch, size)`.
            weight: factor of the loss in the total, or `None` for 1.
        """
        index, known, state = rows
        if replica_count() > 1:
            # Every replica keeps a copy of the table and makes the same step
            # on it, that of the joint batch.
            index, by_row, flags = (
                gather_replicas(x)
                for x in (index, by_row, ops.cast(known, "int32"))
            )
            known = ops.cast(flags, "bool")
            if self.follows is None:
                by_row = by_row * share_of_loss()
            state = self.table.read(index)
        if self._prior:
            self._prior.move_centre(by_row, known)
            pull = self._prior.gradient(state[:, 0], index)
            by_row = by_row + (pull if weight is None else pull * weight)
        state, refused = self._optimizer.step(state, by_row, index, known)
        self.table.write(index, state)
        self.refusals.count(ops.logical_not(known), refused, index)

    def values(self, index=None) -> np.ndarray:
        """Values of some rows or all on the host, `(rows, *shape)`."""
        if index is not None:
            return self._to_values(self.table.numpy(np.asarray(index)))
        rows = self.table.shape[0]
        parts = [self._to_values(p) for p in self._parts()]
        return np.concatenate(parts).reshape(rows, *self.shape)

    def update_mean(self):
        """Brings the stored mean up to date, in one pass over the table."""
        total = sum(
            self._to_values(p).sum(axis=0, dtype="float64")
            for p in self._parts()
        )
        mean = np.ravel(total / self.table.shape[0])
        self.mean.assign(mean.astype("float32"))

    def _parts(self):
        rows, _, size = self.table.shape
        stride = max(1, 2**22 // size)
        if not self.table.needs_host:
            yield self.table.numpy()
            return
        for start in range(0, rows, stride):
            yield self.table.numpy(slice(start, start + stride))

    def _to_values(self, state):
        origin = np.ravel(self._origin).astype(state.dtype)
        if self._prior:
            origin = origin + ops.convert_to_numpy(self._prior.centre)
        values = self._constraint(ops.convert_to_tensor(origin + state[:, 0]))
        return ops.convert_to_numpy(values).reshape(-1, *self.shape)
