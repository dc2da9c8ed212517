"""Files of rows and their descriptions."""

import json
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Literal

import numpy as np

from keras_likelihood.backend.whole_files import replacing

_FORMAT = "keras_likelihood table 3"
_MAGIC = b"\x89KLROWS\n"
_HEADER = struct.Struct("<8sIIII")


def write_about(path: str, about: dict):
    """Writes `path.json`, unless it exists in another format."""
    if os.path.exists(f"{path}.json"):
        _read_json(path)
    with replacing(f"{path}.json") as temporary:
        text = json.dumps({"format": _FORMAT, **about}, indent=1)
        temporary.write_text(text + "\n")


def _read_json(path):
    try:
        with open(f"{path}.json", encoding="utf-8") as file:
            about = json.load(file)
        if about.pop("format") == _FORMAT:
            return about
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        pass
    raise ValueError(
        f"{path} is not a table of data parameters. Convert tables of version "
        "0.1 by loading and saving them with version 0.2. "
        f"Received: {path}.json, which is missing or has another format"
    )


def check_file(about: dict, path: str):
    """Raises an error if the file at `path` is not a table of these rows."""
    start = _first_bytes(path) if os.path.isfile(path) else b""
    if start == _MAGIC:
        raise ValueError(
            f"{path} is a table of version 0.2. Choose a new path, "
            "`table=FileTable('scale.npy')`, and read the old rows once with "
            f"`scale.load({path!r})`. Received: {path!r}"
        )
    if not start.startswith(b"\x93NUMPY"):
        raise ValueError(
            f"{path} is not a table of data parameters. "
            f"Received: a file that starts with {start!r}"
        )
    check_about(about, _read_json(path), path)


def check_about(expected: dict, found: dict, path: str):
    """Raises an error if the rows of a file belong to another parameter."""
    expected, found = json.loads(json.dumps([expected, found]))
    differing = [
        name
        for name in {**expected, **found}
        if expected.get(name) != found.get(name)
    ]
    if differing:
        raise ValueError(
            f"{path} does not match this table. Expected: "
            f"{ {n: expected.get(n) for n in differing} }. "
            f"Received: { {n: found.get(n) for n in differing} }"
        )


def open_rows(
    path: str, shape: tuple, about: dict, mode: Literal["r", "r+"] = "r"
) -> np.ndarray:
    """Opens the table at `path` as a memory map, after checking it."""
    check_file(about, path)
    try:
        rows = np.load(path, mmap_mode=mode)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"{path} is damaged or truncated. Restore it from a checkpoint. "
            f"Received: {error}"
        ) from error
    if rows.shape != shape or rows.dtype != np.dtype("<f4"):
        raise ValueError(
            f"{path} has a wrong size. If there are new examples, set "
            "`num_examples` to the number of rows and call `append`. "
            f"Expected: float32 of shape {shape}. "
            f"Received: {rows.dtype} of shape {rows.shape}"
        )
    return rows


def in_parts(rows: np.ndarray, numbers=None) -> Iterator[np.ndarray]:
    """Yields all rows, or the rows `numbers`, in parts that fit in memory."""
    count = max(1, 2**22 // rows[:1].size)
    for start in range(0, len(rows if numbers is None else numbers), count):
        part = slice(start, start + count)
        yield rows[part if numbers is None else numbers[part]]


def save(path: str, rows: np.ndarray, about: dict):
    """Writes rows and their description to an `.npz`, atomically."""
    text = np.frombuffer(json.dumps(about).encode(), "uint8")
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, state=rows, about=text)


def load(path: str | os.PathLike, shape: tuple, about: dict) -> np.ndarray:
    """The rows of a file of any format and version, after checking them."""
    path = os.fspath(path)
    start = _first_bytes(path)
    if start.startswith(b"PK"):
        rows, found = _read_archive(path, about)
    elif start == _MAGIC:
        rows, found = _read_version_2(path)
    else:
        rows, found = open_rows(path, shape, about), about
    check_about({**about, "shape": shape}, {**found, "shape": rows.shape}, path)
    bad = sum(
        int((~np.isfinite(part)).any(axis=(1, 2)).sum())
        for part in in_parts(rows)
    )
    if bad:
        raise ValueError(
            f"{path} has rows that are not finite. "
            f"Received: {bad} of {len(rows)} rows with NaN or infinity"
        )
    return rows


def _first_bytes(path):
    with open(path, "rb") as file:
        return file.read(8)


def _read_archive(path, about):
    with np.load(path) as archive:
        if "state" not in archive:
            raise ValueError(
                f"{path} is not a table of data parameters. "
                f"Received: an archive of {archive.files}"
            )
        # Files of version 0.2 have no description.
        if "about" in archive:
            about = json.loads(archive["about"].tobytes())
        return archive["state"], about


def _read_version_2(path):
    """Rows and description of a table on disk of version 0.2.

    The file has a header of 4096 bytes, then the rows with a checksum each.
    """
    with open(path, "rb") as file:
        *_, length, checksum = _HEADER.unpack(file.read(_HEADER.size))
        text = file.read(length)
    if zlib.crc32(text) != checksum:
        raise ValueError(
            f"{path} is damaged. Received: a header with a wrong checksum"
        )
    header = json.loads(text)
    shape = header["num_rows"], header["width"] + 1
    rows = np.memmap(path, "<f4", "r", 4096, shape)
    owner = header["owner"]
    slots, size = owner.pop("slots"), owner.pop("size")
    columns = ["displacement", "mean_square", "momentum"][:slots]
    return rows[:, :-1].reshape(-1, slots, size), {"columns": columns, **owner}
