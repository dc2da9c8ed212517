"""Reads inputs and labels, as the model of a command takes them."""

import numpy as np

from keras_likelihood.backend.cells import as_texts
from keras_likelihood.backend.csv_tables import CsvTable
from keras_likelihood.commands import files


def read_examples(model, path, args) -> dict:
    """Reads inputs `x` and labels `y` of an .npz or a .csv.

    With a .csv the result has also the `table`, the `names` of its columns,
    and `labels`, the names of the classes if they are texts. If an estimator
    for tables made the model, the .csv may have its columns in any order, the
    default target is the column that is not among them, and the result has
    its `columns` and what to show of the table. Without a model, and for such
    a model, NaN in a table is a missing value.
    """
    path = files.regular_file(path)
    from keras_likelihood.layers.table_features import takes_missing

    missing = model is None or takes_missing(model)
    if not files.is_text_table(path):
        return files.read_arrays(path, ("x", "y"), missing=missing)
    if missing and model is not None:
        return _read_for_estimator(model, path, args)
    table = CsvTable(path, args.target or "")
    x, cells = table.read()
    notes = [f"The labels are the column `{table.target}`", *table.notes]
    for note in notes:
        args.console.say(f"{note}.")
    y = table.numbers(cells)
    found = {"x": x, "y": y, "names": table.names, "table": table}
    if np.isnan(y).mean() > 0.5:
        labels, y = np.unique(cells, return_inverse=True)
        found.update(y=y, labels=labels.tolist())
    if not missing:
        files.refuse_nan(path, "x", x)
    files.refuse_nan(path, table.target, y)
    return found


def _read_for_estimator(model, path, args):
    from keras_likelihood.reading.tables import read_file
    from keras_likelihood.tabular.loading import estimator_of

    estimator = estimator_of(model)
    columns = read_file(path)
    x = estimator.encode(columns)
    known = [column.name for column in estimator.columns_]
    rest = [name for name in columns if name not in known]
    table = CsvTable(path, args.target or (rest[0] if len(rest) == 1 else ""))
    args.console.say(f"The labels are the column `{table.target}`.")
    shown, cells = table.read()
    found = {"x": x, "columns": known, "shown": shown}
    found |= {"names": table.names, "table": table}
    if not hasattr(estimator, "classes_"):
        y = table.numbers(cells)
        files.refuse_nan(path, table.target, y)
        return found | {"y": y}
    labels = as_texts(estimator.classes_)
    given = as_texts(columns[table.target])
    numbers = {label: number for number, label in enumerate(labels)}
    if unknown := sorted(set(given) - numbers.keys()):
        raise files.CommandError(
            f"{path}: the labels must be classes of the model: "
            f"{', '.join(labels[:20])}. Received: {', '.join(unknown[:5])}"
        )
    y = np.array([numbers[label] for label in given])
    return found | {"y": y, "labels": labels}


def read_alike(model, path, args, known) -> dict:
    """Reads a further file in which texts have the numbers of `known`."""
    found = read_examples(model, path, args)
    names = {"labels": "classes"}
    if "table" in found and found["table"].changed and "shown" not in found:
        # The texts of its columns are numbers by this file alone.
        names["names"] = "columns"
    for name, what in names.items():
        needed, given = known.get(name), found.get(name)
        if needed and given and needed != given:
            raise files.CommandError(
                f"{path}: the {what} must be those of {args.data}: "
                f"{', '.join(needed[:20])}. Received: {', '.join(given[:20])}"
            )
    return found
