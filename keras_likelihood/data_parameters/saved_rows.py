"""Tables in files of their own, and those of 0.1.0."""

import contextlib
import os
import struct
import zlib

import numpy as np

from keras_likelihood.data_parameters.row_file import RowFile


def read_rows(path: str, shape: tuple) -> np.ndarray:
    """The state `(rows, slots, size)` that `save` or 0.1.0 wrote.

    Args:
        path: an `.npz` of `DataParameter.save`, a table on disk, or the
            `.npy` that was a table on disk in 0.1.0.
        shape: of the table that will take it.
    """
    with open(path, "rb") as file:
        start = file.read(6)
    if start == b"\x93NUMPY":
        state = _read_first_format(path)
    elif start.startswith(b"PK"):
        with np.load(path) as archive:
            state = archive["state"]
    else:
        with contextlib.closing(RowFile.of(path)) as file:
            state = file.read(slice(None))
    if state.size != np.prod(shape) or len(state) != shape[0]:
        raise ValueError(
            "The file is of another table. Expected: (rows, slots, size) "
            f"{shape}. Received: {state.shape}"
        )
    return state.reshape(shape)


def _read_first_format(path):
    """Rows of a table of 0.1.0 with the batch in the journal beside it."""
    # Copied where it is written to: neither the file nor the memory of the
    # machine takes the change.
    rows = np.load(path, mmap_mode="c")
    journal = f"{os.fspath(path)}.journal"
    if not os.path.exists(journal):
        return rows
    with open(journal, "rb") as file:
        content = file.read()
    start = struct.Struct("<8sqqI")
    if len(content) < start.size:
        return rows
    magic, count, width, checksum = start.unpack_from(content)
    payload = content[start.size : start.size + count * (8 + 4 * width)]
    if magic != b"KLROWS01" or zlib.crc32(payload) != checksum:
        return rows
    index = np.frombuffer(payload, "<i8", count)
    rows[index] = np.frombuffer(payload, "<f4", offset=8 * count).reshape(
        count, width
    )
    return rows
