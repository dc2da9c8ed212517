"""Loads models from .keras files for the commands."""

import contextlib
import json
import pathlib
import traceback

from keras_likelihood.commands.archives import open_archive
from keras_likelihood.commands.command_error import CommandError

_WIDTHS = ("units", "filters", "input_dim", "output_dim", "components")
"""Names of arguments that say how wide a layer is."""


def load_model(path):
    """Loads a `.keras` file in safe mode.

    First the checksums are tested. Keras itself may read weights without a
    check of their checksums.
    """
    if pathlib.Path(path).suffix != ".keras":
        raise CommandError(f"The model must be a .keras file. Received: {path}")
    with open_archive(path, ".keras") as archive:
        damaged = archive.testzip()
        if damaged:
            raise ValueError(f"the checksum of {damaged!r} is wrong")
        held = sum(entry.file_size for entry in archive.filelist)
        _refuse_giants(json.loads(archive.read("config.json")), held)
    import keras

    from keras_likelihood import reading

    try:
        model = reading.load_model(path)
    except MemoryError:
        raise
    except Exception as error:
        # The type of error depends on the fault, the backend and the version.
        raise CommandError(
            f"{path}: Keras cannot load this model "
            f"({type(error).__name__}: {error})"
        ) from error
    if not isinstance(model, keras.Model):
        raise CommandError(
            f"{path}: the file must hold a model. "
            f"Received: {type(model).__name__}"
        )
    return model


def _refuse_giants(config, held):
    """Raises an error if a layer is wider than the file has weights for.

    Keras makes a layer's weights before it reads them. A width of 1e13 in the
    configuration would need too much memory.
    """
    if isinstance(config, list):
        for part in config:
            _refuse_giants(part, held)
    if not isinstance(config, dict):
        return
    for name, part in config.items():
        # Each weight needs at least four bits.
        if name in _WIDTHS and isinstance(part, int) and part > 2 * held:
            raise ValueError(
                f"a layer claims `{name}` {part:,} in {held:,} bytes"
            )
        _refuse_giants(part, held)


@contextlib.contextmanager
def running(model_path, data_path):
    """Turns any error of the model on these data into a command error."""
    try:
        yield
    except (CommandError, ValueError, OSError, MemoryError):
        raise
    except Exception as error:
        *_, (innermost, _) = traceback.walk_tb(error.__traceback__)
        module = innermost.f_globals.get("__name__", "")
        if module.startswith("keras_likelihood"):
            raise
        raise CommandError(
            f"{data_path}: the model {model_path} cannot be run on `x` "
            f"({type(error).__name__}: {error})"
        ) from error
