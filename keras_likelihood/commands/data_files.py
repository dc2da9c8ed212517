"""Data files as the commands take them."""

import contextlib
import pathlib

import numpy as np


def existing(path) -> pathlib.Path:
    """The path; ends the command if there is no such file."""
    path = pathlib.Path(path)
    if not path.exists():
        raise SystemExit(f"There is no such file: {path}")
    return path


@contextlib.contextmanager
def plain_arrays(path):
    """Opens an .npz; pickled arrays in it are refused when they are read."""
    try:
        with np.load(path, allow_pickle=False) as file:
            yield file
    except ValueError as error:
        raise SystemExit(
            f"{path}: pickled arrays are refused, since loading them may run "
            f"any code; save plain arrays ({error})"
        ) from error
