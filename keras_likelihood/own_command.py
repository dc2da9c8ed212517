"""Tells whether the package was imported by its own command."""

import importlib
import os
import sys

_CORE = (
    "constraints",
    "data_parameters",
    "layers",
    "likelihoods",
    "losses",
    "metrics",
    "models",
    "regularizers",
)


def is_own_command() -> bool:
    """Whether this process is `keras-likelihood` or `python -m` of it.

    Importing Keras and its backend takes seconds. The command imports them
    only when it has something to run, so that `--help`, `--version` and wrong
    options get an answer at once.
    """
    name = os.path.basename(sys.argv[0] if sys.argv else "")
    if name.removesuffix(".exe") == "keras-likelihood":
        return True
    given = sys.orig_argv
    return "-m" in given and given[given.index("-m") + 1 :][:1] == [__package__]


def import_core() -> None:
    """Imports what `import keras_likelihood` imports in other programs."""
    for name in _CORE:
        importlib.import_module(f"{__package__}.{name}")
