"""Files of the commands: reads inputs of unknown origin, checks outputs."""

import argparse
import contextlib
import itertools
import os
import pathlib
import shlex
import stat
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_likelihood.backend.files import Path
from keras_likelihood.backend.types import Array
from keras_likelihood.commands.options import COMMANDS
from keras_likelihood.tables.columns import as_numbers, as_words, refuse_nan
from keras_likelihood.tables.number_table import NumberTable
from keras_likelihood.tables.reading import (
    check_target,
    is_text_table,
    open_table,
    read_file,
)

_INPUTS = ("model", "data", "test", "labels", "apply")
_OUTPUTS = ("output", "report", "issues", "save", "page")


class CommandError(Exception):
    """The data or the model cannot be used; `status` is the exit status."""

    status = 1


class UsageError(CommandError):
    """The command line is wrong, for example a file is missing."""

    status = 2


def regular_file(path: Path) -> pathlib.Path:
    """The path of a file. Raises an error if it is missing or empty."""
    path = pathlib.Path(path)
    if not path.is_file():
        received = "a folder or device" if path.exists() else "no such file"
        raise UsageError(f"{path}: a file is needed. Received: {received}")
    if not path.stat().st_size:
        raise CommandError(f"{path}: the file is empty")
    return path


@contextlib.contextmanager
def running(model_path: str, data_path: str) -> Iterator[None]:
    """A context in which the model is run on these data."""
    try:
        yield
    except (CommandError, MemoryError, ValueError, OSError):
        raise
    except Exception as error:
        # The error type depends on the fault, the backend and the version.
        raise CommandError(
            f"{data_path}: the model {model_path} cannot be run on `x` "
            f"({type(error).__name__}: {error})"
        ) from error


NUMBERS = "biuf"
"""Kinds of dtype that are real numbers."""


def read_examples(
    model: Any, path: str, args: argparse.Namespace
) -> dict[str, Any]:
    """Reads inputs `x` and labels `y` from an .npz or a .csv.

    With a .csv the result also has the `table`, the `names` of its columns, and
    `labels`, the names of the classes if they are texts. With the model of an
    estimator for tables `x` is encoded for it, and `shown` is the table as
    numbers. Without a model, and with such a model, NaN is a missing value.
    """
    from keras_likelihood.tables.table_features import takes_missing

    missing = model is None or takes_missing(model)
    if not is_text_table(path):
        return read_arrays(path, ("x", "y"), missing=missing)
    estimator, columns, target = None, None, args.target or ""
    if missing and model is not None:
        from keras_likelihood import tabular

        estimator = tabular.load(model)
        if not hasattr(estimator, "classes_"):
            raise CommandError(
                f"{args.model}: `fit` has already calibrated this model. Use "
                "its page, and `keras-likelihood predict` for intervals"
            )
        columns = read_file(path)
        names = [column.name for column in estimator.columns_]
        rest = [name for name in columns if name not in names]
        target = target or (rest[0] if len(rest) == 1 else "")
    table = NumberTable(path, target, columns)
    args.console.say(f"The labels are the column `{table.target}`.")
    x, y, words = table.x, as_numbers(table.y), as_words(table.y)
    data = {"x": x, "y": y, "names": table.names, "table": table}
    if estimator is None:
        for note in table.notes:
            args.console.say(f"{note}.")
        labels = sorted(set(words)) if np.isnan(y).mean() > 0.5 else []
        if not missing:
            refuse_nan(x, f"{path}: `x`")
    else:
        data |= {"x": estimator.encode(columns), "shown": x}
        labels = estimator.classes_.tolist()
    if not labels:
        refuse_nan(y, f"{path}: `{table.target}`")
        return data
    labels = as_words(labels)
    numbers = {label: number for number, label in enumerate(labels)}
    if unknown := sorted(set(words) - numbers.keys()):
        raise CommandError(
            f"{path}: the labels must be classes of the model: "
            f"{', '.join(labels[:20])}. Received: {', '.join(unknown[:5])}"
        )
    y = np.array([numbers[word] for word in words])
    return data | {"y": y, "labels": labels}


def read_model_and_data(
    args: argparse.Namespace,
) -> tuple[Any, dict[str, Any], dict[str, Any] | None]:
    """Reads `--model`, `--data`, and `--test` or `None`, which must agree."""
    from keras_likelihood import reading

    model = reading.load_model(args.model)
    data = read_examples(model, args.data, args)
    test = read_examples(model, args.test, args) if args.test else {}
    names = {"labels": "classes"}
    if "table" in test and test["table"].changed and "shown" not in test:
        # The numbers of its texts depend on this file only.
        names["names"] = "columns"
    for name, what in names.items():
        needed, received = data.get(name), test.get(name)
        if needed and received and needed != received:
            raise CommandError(
                f"{args.test}: the {what} must be those of {args.data}: "
                f"{', '.join(needed[:20])}. "
                f"Received: {', '.join(received[:20])}"
            )
    return model, data, test or None


def read_arrays(
    path: Path,
    required: tuple[str, ...],
    optional: tuple[str, ...] = (),
    missing: bool = False,
) -> dict[str, Array]:
    """Reads the named arrays of an .npz.

    Every array must have at least one row of finite numbers; `x` may also be
    text. With `missing`, NaN is a missing value in a table `x`.
    """
    from keras_likelihood.reading import archives

    names = archives.array_names(path)
    if not set(names) >= set(required):
        needed = " and ".join(f"`{name}`" for name in required)
        raise CommandError(
            f"{path}: the file needs arrays {needed}, as "
            "`numpy.savez('data.npz', x=x, y=y)` writes them. "
            f"Received: {sorted(names)}"
        )
    arrays = archives.read_arrays(path, (*required, *optional))
    return {
        name: _checked(path, name, values, missing and name == "x")
        for name, values in arrays.items()
    }


def _checked(path: Path, name: str, values: Array, missing: bool) -> Array:
    allowed = NUMBERS + "SU" if name == "x" else NUMBERS
    if values.ndim == 0 or values.size == 0 or values.dtype.kind not in allowed:
        raise CommandError(
            f"{path}: the array `{name}` must hold numbers, one row for "
            f"each example. Received: shape {values.shape} of {values.dtype}"
        )
    if values.dtype.kind == "f":
        may_miss = missing and values.ndim == 2
        if not may_miss or np.isinf(values).any():
            refuse_nan(values, f"{path}: `{name}`")
        # Backends know neither long doubles nor another byte order.
        size = min(values.dtype.itemsize, 8)
        return values.astype(f"=f{size}", copy=False)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def shell(*words: Any, **options: Any) -> str:
    """A `keras-likelihood` command line with quoted file names.

    Words and options that are `None` or `False` are left out.

    >>> shell("detect", "my table.csv", save="detector.zip", force=True)
    "keras-likelihood detect 'my table.csv' --save detector.zip --force"
    """
    line = ["keras-likelihood", *(str(w) for w in words if w is not None)]
    for name, value in options.items():
        if value is not None and value is not False:
            line += [f"--{name}"] + [str(value)] * (value is not True)
    return shlex.join(line)


def shell_on_data(args: argparse.Namespace, name: str, **options: Any) -> str:
    """A command line for the same model and data."""
    names = ("data", "target", "task", "probabilities")
    own = {option: getattr(args, option) for option in names}
    return shell(name, args.model, **own, **options)


def unused(path: str) -> str:
    """A similar name that no file has, for the next command."""
    stem, suffix = os.path.splitext(path)
    names = (f"{stem}_{number}{suffix}" for number in itertools.count(2))
    every = itertools.chain([path], names)
    return next(name for name in every if not os.path.lexists(name))


def check_files(args: argparse.Namespace) -> None:
    """Completes the names of outputs, and checks all files and the target."""
    command = COMMANDS[args.command]
    for name, path in command.defaults(args).items():
        setattr(args, name, getattr(args, name) or path)
    flags = {flag.strip("-"): flag for flag in command.options}
    inputs = {n: getattr(args, n) for n in _INPUTS if n in flags}
    for path in inputs.values():
        if path is not None:
            regular_file(path)
    if (model := inputs.get("model")) and not model.endswith(".keras"):
        raise UsageError(f"The model must be a .keras file. Received: {model}")
    target = getattr(args, "target", None)
    if target and is_text_table(args.data):
        check_target(target, open_table(args.data).names, f"{args.data}: ")
    if args.output and not args.output.endswith(suffix := command.suffix(args)):
        raise UsageError(
            f"--output must end in {suffix} for these inputs. "
            f"Received: {args.output}"
        )
    check_outputs(
        {
            flags[name]: getattr(args, name)
            for name in _OUTPUTS
            if name in flags
        },
        {flags[name]: path for name, path in inputs.items()},
        args.force,
    )


def check_outputs(
    outputs: dict[str, Any], inputs: dict[str, Any], force: bool
) -> None:
    """Raises an error if an output cannot or must not be written."""
    seen = {k: v for k, v in inputs.items() if v is not None}
    for flag, path in outputs.items():
        if path is not None:
            path = os.fspath(path)
            try:
                fault = _fault(path, seen, force)
            except OSError as error:
                fault = f": this place cannot be written to ({error.strerror})"
            if fault:
                raise UsageError(f"{flag}{fault}. Received: {path!r}")
            seen[flag] = path


def _fault(path: str, taken: dict[str, Any], force: bool) -> str:
    """Why a file may not be written, after the name of its option, or ""."""
    is_file = path and not path.endswith(os.sep)
    with contextlib.suppress(FileNotFoundError):
        is_file = is_file and stat.S_ISREG(os.stat(path).st_mode)
    if not is_file:
        return " must name a file"
    for flag, other in taken.items():
        if _same_file(path, other):
            return f" must not be the file of {flag}"
    if os.path.lexists(path) and not force:
        return ": the file exists. --force replaces it"
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        return ": there is no such folder"
    with tempfile.NamedTemporaryFile(dir=folder, prefix="."):
        return ""


def _same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)
