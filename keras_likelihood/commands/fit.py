"""`keras-likelihood fit`: trains a model that predicts a column."""

import argparse
import pathlib
from typing import Any

from keras_likelihood.backend.files import replacing
from keras_likelihood.backend.types import Array
from keras_likelihood.commands import outputs
from keras_likelihood.commands.files import UsageError
from keras_likelihood.tables.columns import as_texts, is_numeric
from keras_likelihood.tables.reading import read_file
from keras_likelihood.tables.table_files import check_target, open_table

add_parser = outputs.new_command(
    "fit",
    help="train a model that predicts a column of a table",
    text="Trains networks that predict a column of a .csv or .parquet from the "
    "others, with calibrated intervals for a number and probabilities for "
    "classes. Prints their scores on held-out rows, and writes the model and a "
    "page about it.",
    example="keras-likelihood fit table.csv --target price",
    options={
        "data": "a .csv with column names in its first line, or a .parquet",
        "--target": "the column to predict (default: the last)",
        **outputs.TASK_OPTION,
        "--likelihood": "likelihood of a number, such as normal, student_t, "
        "gamma or poisson (default: chosen from the target)",
        "--output": "the model (default: %(default)s)",
        "--report": "a page about the model (default: --output with the suffix "
        ".html)",
        "--members": "number of networks (default: %(default)s)",
        "--epochs": "epochs of each network (default: depends on the number of "
        "rows)",
        "--seed": "random seed (default: %(default)s)",
    },
    output={"default": "model.keras"},
    members={"type": outputs.number(int, 2), "default": 8},
)


def run(args: argparse.Namespace) -> None:
    page = pathlib.Path(args.output).with_suffix(".html")
    args.report = args.report or str(page)
    outputs.check_files(args, "output", "report", suffix=".keras")
    names = open_table(args.data).names
    target = args.target or names[-1]
    check_target(target, names, f"{args.data}: ")
    console = args.console
    table = read_file(args.data, console.say)
    task = _task(args, table[target])
    if args.likelihood and task == "classification":
        raise UsageError(
            "--likelihood applies to a number. Use --task regression if the "
            f"target is one. Received: {args.likelihood} for classes"
        )
    # A missing package must fail before the long computation.
    import keras_likelihood.pages.page  # noqa: F401
    from keras_likelihood import tabular

    options = {"members": args.members, "epochs": args.epochs}
    options["random_state"] = args.seed
    model: Any
    if task == "regression":
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
    for note in model.notes_:
        console.say(f"{note}.")
    console.say(model.summary().replace("\n", ". "))
    console.phase("comparing with simple methods for the page")
    # Without its old page, a new model never stands beside a page of another.
    with replacing(args.report) as new_page, replacing(args.output) as file:
        model.save(file)
        model.report(new_page)
        pathlib.Path(args.report).unlink(missing_ok=True)
    scores = {"scores": model.scores_, "likelihood": model.likelihood_.name()}
    console.result(output=args.output, report=args.report, **scores)
    console.result(notes=model.notes_)
    predictions = outputs.unused("predictions.csv")
    console.next_step(
        f"open {args.report} in a browser, and predict rows, here of the same "
        "table:",
        outputs.shell("predict", args.output, args.data, output=predictions),
    )


def _task(args: argparse.Namespace, cells: Array) -> str:
    """The task: regression for more than two different numbers."""
    if args.task:
        return str(args.task)
    few = len(set(as_texts(cells)) - {None}) <= 2
    task = "regression" if is_numeric(cells) and not few else "classification"
    args.console.say(
        f"The target is treated as {task}. Use --task to change this."
    )
    return task
