"""Reads a .csv for a model that an estimator for tables made."""

import numpy as np

from keras_likelihood.backend.cells import as_texts
from keras_likelihood.backend.csv_tables import CsvTable
from keras_likelihood.commands.files import (
    CommandError,
    is_text_table,
    read_arrays,
    read_examples,
    refuse_nan,
    regular_file,
)


def read_for_model(model, path, args) -> dict:
    """What `read_examples` reads, with `x` as the model takes it.

    The columns of a .csv are those of the training, in any order, and may
    have missing values. The target is the column that is not among them.
    """
    from keras_likelihood.layers.table_features import takes_missing

    if not takes_missing(model):
        return read_examples(path, args)
    if not is_text_table(path):
        return read_arrays(path, ("x", "y"), missing=("x",))
    from keras_likelihood.reading.tables import read_file
    from keras_likelihood.tabular.loading import estimator_of

    estimator = estimator_of(model)
    columns = read_file(regular_file(path))
    x = estimator.encode(columns)
    known = [column.name for column in estimator.columns_]
    rest = [name for name in columns if name not in known]
    table = CsvTable(path, args.target or (rest[0] if len(rest) == 1 else ""))
    args.console.say(f"The labels are the column `{table.target}`.")
    shown, cells = table.read()
    found = {
        "x": x,
        "columns": known,
        "shown": shown,
        "names": table.names,
        "table": table,
    }
    if hasattr(estimator, "classes_"):
        labels = as_texts(estimator.classes_)
        given = as_texts(columns[table.target])
        return found | {
            "y": _class_numbers(path, given, labels),
            "labels": labels,
        }
    y = table.numbers(cells)
    refuse_nan(path, table.target, y)
    return found | {"y": y}


def read_alike(model, path, args, known) -> dict:
    """Reads a further file in which texts have the numbers of `known`."""
    found = read_for_model(model, path, args)
    names = {"labels": "classes"}
    if "table" in found and found["table"].changed and "shown" not in found:
        # The texts of its columns are numbers by this file alone.
        names["names"] = "columns"
    for name, what in names.items():
        needed, given = known.get(name), found.get(name)
        if needed and given and needed != given:
            raise CommandError(
                f"{path}: the {what} must be those of {args.data}: "
                f"{', '.join(needed[:20])}. Received: {', '.join(given[:20])}"
            )
    return found


def _class_numbers(path, given, labels):
    numbers = {label: number for number, label in enumerate(labels)}
    if unknown := sorted(set(given) - numbers.keys()):
        raise CommandError(
            f"{path}: the labels must be classes of the model: "
            f"{', '.join(labels[:20])}. Received: {', '.join(unknown[:5])}"
        )
    return np.array([numbers[label] for label in given])
