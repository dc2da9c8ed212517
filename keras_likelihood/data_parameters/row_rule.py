"""How the few rows of a table that a batch visits are moved."""

from keras import ops

from keras_likelihood.backend.rows import sum_by_place


class RowRule:
    """A rule whose state belongs to a row and rests while the row does.

    A subclass says how many numbers it keeps (`slots`) and how they move. A
    row that occurs several times in a batch moves once, by the sum of its
    gradients.
    """

    slots: int
    """Numbers kept per value; the first is the displacement."""

    def step(self, state, gradient, index, counts):
        """One step for the rows of a batch.

        A row whose new state would not be finite stays as it is.

        Args:
            state: `(batch, slots, size)`, equal for equal rows.
            gradient: `(batch, size)`, each example's own.
            index: `(batch,)` row numbers.
            counts: `(batch,)` booleans; an entry that does not count adds
                nothing and, if no other names its row, moves nothing.

        Returns:
            `(state, refused)`: the new state `(batch, slots, size)`, equal
            for equal rows, and booleans `(batch,)` for the entries whose row
            stays because it would not be finite.
        """
        # Equal indices share the place of the first among the sorted ones;
        # those that do not count share one of their own, of no row.
        counted = ops.where(counts, index, -1)
        order = ops.sort(counted)
        total = sum_by_place(gradient, _place(order, counted))
        place = ops.minimum(_place(order, index), ops.shape(index)[0] - 1)
        visited = ops.equal(ops.take(order, place, axis=0), index)
        total = self._clip(ops.take(total, place, axis=0), total, order >= 0)
        # Not finite either where the mean square would overflow.
        finite = ops.isfinite(ops.sum(ops.square(total), axis=1))
        moves = ops.logical_and(visited, finite)
        state = ops.where(moves[:, None, None], self._move(state, total), state)
        return state, ops.logical_and(visited, ops.logical_not(finite))

    def _move(self, state, gradient):
        raise NotImplementedError

    def _clip(self, gradient, total, counted):
        """The gradients of the batch, bounded; `total` has each row once."""
        return gradient


def _place(order, index):
    return ops.cast(ops.searchsorted(order, index), "int32")
