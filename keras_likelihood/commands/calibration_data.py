"""What `keras-likelihood recalibrate` fits to."""

import pathlib

import numpy as np

from keras_likelihood.commands.archives import regular_file
from keras_likelihood.commands.command_error import CommandError
from keras_likelihood.commands.csv_tables import read_table
from keras_likelihood.commands.data_files import read_arrays
from keras_likelihood.commands.model_files import load_model, running


def load_all(args):
    """Reads what to fit and what to judge on.

    Args:
        args: options of the command.

    Returns:
        The frozen model or `None`, and twice a dict of `logits`, `y` (class
        numbers) and perhaps `features`; `None` if there are no test data.
    """
    wanted = ("x", "y") if args.model else ("logits", "y")
    val = _load(args.data, wanted)
    test = _load(args.test, wanted) if args.test else None
    frozen = None
    if args.model:
        model = load_model(args.model)
        from keras_likelihood.recalibration.classifier_graph import (
            ClassifierGraph,
        )

        with running(args.model, args.data):
            frozen = ClassifierGraph(
                model,
                val["x"],
                from_logits=False if args.probabilities else None,
                features=args.features,
                with_features="optional",
            )
            val = _outputs(frozen, val)
        if test:
            with running(args.model, args.test):
                test = _outputs(frozen, test)
    if test:
        _check_alike(args, val, test)
    for data in filter(None, (val, test)):
        data["y"] = _class_numbers(data)
    return frozen, val, test


def _load(path, wanted) -> dict:
    """Reads the wanted arrays, and features if there are any.

    A .csv holds logits, and the class number last.
    """
    suffix = pathlib.Path(path).suffix
    if suffix == ".npz":
        return read_arrays(path, wanted, ("features",))
    regular_file(path)
    if suffix != ".csv":
        raise CommandError(f"Data must be .npz or .csv. Received: {path}")
    if "logits" not in wanted:
        raise CommandError(f"A model needs data in an .npz. Received: {path}")
    table, names = read_table(path)
    if len(names) < 2:
        raise CommandError(
            f"{path}: a .csv must hold the logits, then the class number. "
            f"Received: {len(names)} column(s)"
        )
    return {"logits": table[:, :-1], "y": table[:, -1]}


def _outputs(frozen, data):
    logits, features, y, _ = frozen.outputs(data["x"], data["y"])
    return {"logits": logits, "features": features, "y": y}


def _check_alike(args, val, test):
    for name in ("logits", "features"):
        if val.get(name) is None:
            continue
        needed = np.shape(val[name])[1:]
        found = np.shape(test.get(name))[1:]
        if needed != found:
            raise CommandError(
                f"`{name}` must have the shape (n, ...) of {args.data} in "
                f"{args.test} too, after n {needed}. Received: {found}"
            )


def _class_numbers(data):
    """The labels as numbers in the logits' shape, less its classes."""
    from keras_likelihood.reading.targets import as_labels

    shape = np.shape(data["logits"])
    shape = shape if len(shape) > 1 else (*shape, 1)
    return as_labels(data["y"], shape).reshape(shape[:-1])
