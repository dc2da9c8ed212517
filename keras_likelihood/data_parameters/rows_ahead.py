"""A training that reads the rows of its next batches while it computes."""

import collections
import concurrent.futures
import contextlib

import keras
import numpy as np

from keras_likelihood.data_parameters.indexed import split_index

MOST_BYTES = 2**28
"""Batches that wait for their rows hold little more memory than this."""


class RowsAhead:
    """The `train_function` of a model on JAX, some batches ahead.

    Batches come in groups. While one group trains, a thread writes the rows
    of the group before into the file and reads those of the next group. What
    two groups that follow each other have in common stays on the device, so
    that each batch finds the rows as the batch before left them.

    Args:
        function: maps `(state, iterator)` to `(logs, state)`.
        model: whose function it is.
    """

    def __init__(self, function, model):
        self.function = function
        self._model = model
        self._tables: list = []
        self._pool = None
        self._forget()

    @classmethod
    def around(cls, function, model):
        """The function with rows ahead, if a table on disk needs it."""
        if isinstance(function, cls) or not _tables_of(model):
            return function
        return cls(function, model)

    @staticmethod
    def settle_all(model):
        """Lets the files of a model's tables have every row."""
        for table in _tables_of(model):
            table.settle()

    def _forget(self):
        self._source = self._ending = self._next = None
        self._group: collections.deque = collections.deque()

    def __call__(self, state, iterator):
        if iterator is not self._source:
            self._begin(iterator)
        if not self._group:
            state = self._next_group(state)
        with contextlib.ExitStack() as staged:
            for table in self._tables:
                staged.enter_context(table.staged())
            logs, state = self.function(state, self._batches())
        for table, place in zip(self._tables, self._places, strict=True):
            table.stage.trained(state[1][place])
        return logs, state

    def _batches(self):
        while self._group:
            yield self._group.popleft()

    def _begin(self, source):
        self.settle()
        self._forget()
        self._source, self._tables = source, _tables_of(self._model)
        held = self._model.non_trainable_variables
        places = {id(variable): i for i, variable in enumerate(held)}
        self._places = [places[id(t.stage.variable)] for t in self._tables]
        for table in self._tables:
            table.ahead = self
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self._read_on()

    def _next_group(self, state):
        following, self._next = self._next, None
        try:
            batches, prepared = following.result() if following else ([], [])
        except BaseException:
            self.stop()
            raise
        if not batches:
            raise self._ending
        values = list(state[1])
        for table, place, rows in zip(
            self._tables, self._places, prepared, strict=True
        ):
            values[place] = table.stage.enter(values[place], rows)
        self._group.extend(batches)
        self._read_on()
        return (state[0], values, *state[2:])

    def _read_on(self):
        """Lets the thread prepare the group after this one."""
        at_once = self._model.steps_per_execution
        most = max(table.batches_ahead for table in self._tables)
        most = max(1, most // at_once) * at_once
        batches: list = []
        size = 0
        while self._ending is None and len(batches) < most:
            if size > MOST_BYTES and len(batches) % at_once == 0:
                break
            try:
                batches.append(next(self._source))
            except Exception as error:
                # It is due when the batches before it have trained.
                self._ending = error
                break
            leaves = keras.tree.flatten(batches[-1])
            size += sum(getattr(leaf, "nbytes", 0) for leaf in leaves)
        self._next = self._pool.submit(self._prepare, batches, most)

    def _prepare(self, batches, most):
        indices = [np.asarray(split_index(batch[1])[2]) for batch in batches]
        return batches, [table.prepare(indices, most) for table in self._tables]

    def settle(self):
        """Waits until the file has every row as it was trained last."""
        if self._next is not None:
            self._next.exception()
        for table in self._tables:
            table.write_back()

    def stop(self):
        """Forgets the batches that wait, and ends the thread."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()
        for table in self._tables:
            table.ahead = None
            table.stage.forget()
        self._tables = []
        self._forget()


def _tables_of(model):
    parameters = model.data_parameters.values()
    tables = [p.rows.table for p in parameters if p.built]
    return [table for table in tables if table.batches_ahead]
