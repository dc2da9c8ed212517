"""Rows of a file that lie on the device while some batches train (JAX).

A stage is an integer matrix `(capacity, width + 1)`. A line of it has the bits
of a row of float32 numbers and, last, the number of the row. The lines are in
the order of these numbers; those that are not used come last. As integers the
bits stay what they are wherever they are moved.
"""

import functools

import keras
import numpy as np

_UNUSED = np.iinfo("int32").max


def can_stage(num_rows: int) -> bool:
    """Whether this backend lets rows lie on the device between steps."""
    return keras.backend.backend() == "jax" and num_rows < _UNUSED


def default_batches_ahead() -> int:
    """How many batches pay: a call to the host is cheap on a CPU alone."""
    if keras.backend.backend() != "jax":
        return 0
    import jax

    return 0 if jax.default_backend() == "cpu" else 8


def put(numbers: np.ndarray, rows: np.ndarray, kept: np.ndarray, capacity: int):
    """Starts to bring rows of the file to the device.

    Args:
        numbers: of the rows `(count,)`, in their order.
        rows: `(count, width)`, float32.
        kept: `(count,)`: the line of the stage before that has the row too,
            and maybe a newer state of it, or -1.
        capacity: lines to make, `>= count`.
    """
    import jax

    count, width = rows.shape
    lines = np.zeros((capacity, width + 2), "int32")
    lines[:count, :width] = np.ascontiguousarray(rows).view("int32")
    lines[:count, width] = numbers
    lines[count:, width] = _UNUSED
    lines[:, width + 1] = -1
    lines[:count, width + 1] = kept
    return jax.device_put(lines)


def take_over(before, lines):
    """The stage of the lines that `put` sent, with the newest rows."""
    return _compiled_take_over()(before, lines)


@functools.cache
def _compiled_take_over():
    import jax
    import jax.numpy as jnp

    def newest(before, lines):
        kept = lines[:, -1:]
        older = before[jnp.maximum(kept[:, 0], 0)]
        return jnp.where(kept >= 0, older, lines[:, :-1])

    return jax.jit(newest)


def read_stage(stage, index):
    """Rows `(batch, width)` of the stage that are numbered `index`."""
    import jax

    lines = stage.at[_lines(stage, index)].get(mode="promise_in_bounds")
    return jax.lax.bitcast_convert_type(lines[:, :-1], "float32")


def write_stage(stage, index, rows):
    """The stage with `rows` `(batch, width)` in the place of `index`."""
    import jax

    bits = jax.lax.bitcast_convert_type(rows.astype("float32"), "int32")
    return stage.at[_lines(stage, index), :-1].set(
        jax.lax.stop_gradient(bits), mode="promise_in_bounds"
    )


def _lines(stage, index):
    import jax
    import jax.numpy as jnp

    # A GPU waits for each round of a search; comparing all takes one kernel.
    on_cpu = jax.default_backend() == "cpu"
    return jnp.searchsorted(
        stage[:, -1],
        index.astype("int32"),
        method="scan" if on_cpu else "compare_all",
    )


def from_stage(stage) -> np.ndarray:
    """The rows `(capacity, width)` on the host, when they are there."""
    return np.ascontiguousarray(np.asarray(stage)[:, :-1]).view("float32")
