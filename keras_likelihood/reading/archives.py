"""Reads archives of unknown origin: arrays, and the sizes of saved models."""

import json
import os
import zipfile
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from keras_likelihood.backend.files import (
    FileError,
    Path,
    npy_header,
    open_regular,
    reading,
)
from keras_likelihood.backend.types import Array

LARGEST_RATIO = 100
"""An archive may unpack to this many times its size."""
_SMALL = 2**26
"""Bytes to which every archive may unpack."""
_SIZES = ("classes", "components", "hidden", "knots", "num_examples", "units")
"""Arguments that determine the sizes of weights, beside `members`."""


def read_arrays(
    path: Path, names: Collection[str] | None = None
) -> dict[str, Array]:
    """The arrays of an `.npz`, by default all, after checks of all sizes."""
    with open_regular(path) as file, reading(path, "an .npz archive"):
        with zipfile.ZipFile(file) as archive:
            _check_sizes(archive, path)
            return {
                name: _read_entry(archive, entry)
                for entry in archive.infolist()
                if (name := entry.filename.removesuffix(".npy"))
                and (names is None or name in names)
            }


def array_names(path: Path) -> list[str]:
    """Names of the arrays in an `.npz`."""
    with open_regular(path) as file, reading(path, "an .npz archive"):
        with zipfile.ZipFile(file) as archive:
            return [n.removesuffix(".npy") for n in archive.namelist()]


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    with archive.open(entry) as file:
        npy_header(file, entry.file_size)
        file.seek(0)
        array: Array = np.lib.format.read_array(file, allow_pickle=False)
        # The checksum is compared at the end of the entry.
        file.read(1)
    return array


def _check_sizes(archive: zipfile.ZipFile, path: Path) -> None:
    """Raises an error if an archive unpacks to far more than its size."""
    size = os.path.getsize(path)
    unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > max(_SMALL, LARGEST_RATIO * size):
        raise FileError(
            f"{os.fspath(path)}: an archive must not unpack to more than "
            f"{LARGEST_RATIO} times its size. If you trust it, save it without "
            f"compression. Received: {unpacked:,} bytes in {size:,}"
        )


def check_model(path: Path) -> None:
    """Raises an error if a `.keras` file is damaged or needs too much memory.

    Layers and tables of this package must fit the stored weights, because they
    are built before the weights are read.
    """
    with open_regular(path) as file, reading(path, "a .keras archive"):
        with zipfile.ZipFile(file) as archive:
            _check_sizes(archive, path)
            if damaged := archive.testzip():
                raise ValueError(f"the checksum of {damaged!r} is wrong")
            stored = sum(
                entry.file_size
                for entry in archive.infolist()
                if entry.filename.endswith((".h5", ".npz"))
            )
            for name, size in _own_sizes(
                json.loads(archive.read("config.json"))
            ):
                if size > stored:
                    raise FileError(
                        f"{os.fspath(path)}: the layers must fit the stored "
                        f"weights of {stored} bytes. Use another copy. "
                        f"Received: {name}={size}"
                    )


def _own_sizes(part: Any) -> Iterator[tuple[str, int]]:
    """Names and values of the sizes in configs of this package's classes."""
    if isinstance(part, dict):
        name, own = str(part.get("registered_name")), part.get("config")
        if name.startswith("keras_likelihood>") and isinstance(own, dict):
            yield "members", (members := _largest(own.get("members")))
            for size in _SIZES:
                yield size, members * _largest(own.get(size))
        part = [*part.values()]
    for child in part if isinstance(part, list) else ():
        yield from _own_sizes(child)


def _largest(value: Any) -> int:
    numbers = (v for v in np.ravel(value) if isinstance(v, int | np.integer))
    return max(map(int, numbers), default=1)
