"""`keras-likelihood fit`: trains a model that predicts a column."""

import argparse
import pathlib
from typing import Any

from keras_likelihood.backend.files import replacing
from keras_likelihood.backend.types import Array
from keras_likelihood.commands import files
from keras_likelihood.commands.files import UsageError
from keras_likelihood.tables.columns import as_texts, is_numeric
from keras_likelihood.tables.reading import check_target, open_table, read_file


def run(args: argparse.Namespace) -> None:
    names = open_table(args.data).names
    target = args.target or names[-1]
    check_target(target, names, f"{args.data}: ")
    console = args.console
    table = read_file(args.data, lambda note: console.say(f"{note}."))
    is_regression = _is_regression(args, table[target])
    if args.likelihood and not is_regression:
        raise UsageError(
            "--likelihood applies to a number. Use --task regression if the "
            f"target is one. Received: {args.likelihood} for classes"
        )
    # The lines above appear before Keras is imported, and a missing package
    # fails before the long computation.
    import keras_likelihood.pages.page  # noqa: F401
    from keras_likelihood import tabular

    options = {"members": args.members, "epochs": args.epochs}
    options["random_state"] = args.seed
    model: Any
    if is_regression:
        model = tabular.Regressor(likelihood=args.likelihood, **options)
    else:
        model = tabular.Classifier(**options)
    with console.progress("training") as show:

        def on_round(done: int, rounds: int) -> None:
            show(done, rounds)
            if done == rounds:
                console.phase("scoring and calibrating on held-out rows")

        model.on_round = on_round
        model.fit(table, target=target)
    console.say(model.summary().replace("\n", ". ") + ".")
    console.phase("comparing with simple methods for the page")
    # Without its old page, a new model never stands beside a page of another.
    with replacing(args.report) as new_page, replacing(args.output) as file:
        model.save(file)
        model.report(new_page)
        pathlib.Path(args.report).unlink(missing_ok=True)
    scores = {"scores": model.scores_, "likelihood": model.likelihood_.name()}
    console.result(output=args.output, report=args.report, **scores)
    console.result(notes=model.notes_)
    predictions = files.unused("predictions.csv")
    console.next_step(
        f"open {args.report} in a browser, and predict rows, here of the same "
        "table:",
        files.shell("predict", args.output, args.data, output=predictions),
    )


def _is_regression(args: argparse.Namespace, cells: Array) -> bool:
    """Whether `--task` says so, or there are more than two numbers."""
    if args.task:
        return bool(args.task == "regression")
    several = len(set(as_texts(cells)) - {None}) > 2
    is_regression = several and is_numeric(cells)
    task = "regression" if is_regression else "classification"
    args.console.say(
        f"The target is treated as {task}. Use --task to change this."
    )
    return is_regression
