"""How the few rows of a table that a batch visits are moved."""

from keras import ops

from keras_likelihood.backend.equal_entries import sums_of_equal


class RowRule:
    """A rule whose state belongs to a row and rests while the row does.

    A subclass says how many numbers it keeps (`slots`) and how they move. A
    row that occurs several times in a batch moves once, by the sum of its
    gradients.
    """

    @property
    def slots(self) -> int:
        """Numbers kept per value; the first is the displacement."""
        return 1

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
        counted = ops.where(counts[:, None], gradient, 0.0)
        total, visits = sums_of_equal(
            [counted, ops.cast(counts, "float32")], index
        )
        visited = visits > 0
        total = self._clip(total, visits)
        # Not finite either where the mean square would overflow.
        finite = ops.isfinite(ops.sum(ops.square(total), axis=1))
        moves = ops.logical_and(visited, finite)
        moved = self._move(state, total, visits)
        state = ops.where(moves[:, None, None], moved, state)
        return state, ops.logical_and(visited, ops.logical_not(finite))

    def _move(self, state, gradient, visits):
        """The state after a step.

        Args:
            state: `(batch, slots, size)`.
            gradient: `(batch, size)`, the sum over the row's entries.
            visits: `(batch,)`, how many entries name the row.
        """
        raise NotImplementedError

    def _clip(self, total, visits):
        """The gradients of the batch, bounded if the rule says so."""
        return total
