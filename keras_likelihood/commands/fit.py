"""`keras-likelihood fit`: trains a model that predicts a column."""

import pathlib

from keras_likelihood.commands import outputs
from keras_likelihood.commands.files import regular_file
from keras_likelihood.tables.columns import as_texts, kind_of

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
        "--output": "the model (default: %(default)s)",
        "--report": "a page about the model (default: --output with the suffix "
        ".html)",
        "--members": "number of networks (default: %(default)s)",
        "--epochs": "epochs of each network (default: depends on the number of "
        "rows)",
        "--seed": "random seed (default: %(default)s)",
    },
    output={"default": "model.keras"},
    members={"type": outputs.at_least(2), "default": 8},
)


def run(args) -> None:
    page = pathlib.Path(args.output).with_suffix(".html")
    args.report = args.report or str(page)
    outputs.check_files(args, "output", "report", suffix=".keras")
    # A missing package must fail before the long computation.
    import keras_likelihood.pages.page  # noqa: F401
    from keras_likelihood import tabular
    from keras_likelihood.tables.reading import read_file

    table = read_file(regular_file(args.data))
    target = args.target or list(table)[-1]
    is_number = _task(args, table.get(target)) == "regression"
    kind = tabular.Regressor if is_number else tabular.Classifier
    options = {"members": args.members, "epochs": args.epochs}
    model = kind(**options, random_state=args.seed)
    with args.console.progress("training") as model.on_round:
        model.fit(table, target=target)
    model.save(args.output)
    args.console.say(model.summary().replace("\n", ". "))
    model.report(args.report)
    found = {"scores": model.scores_, "likelihood": model.likelihood_.name()}
    args.console.result(output=args.output, report=args.report, **found)
    predictions = outputs.unused("predictions.csv")
    args.console.next_step(
        f"open {args.report} in a browser, and predict rows, here of the same "
        "table:",
        outputs.shell("predict", args.output, args.data, output=predictions),
    )


def _task(args, cells):
    """The task: regression for more than two different numbers."""
    if args.task or cells is None:
        return args.task
    is_number = kind_of(cells) == "number"
    few = len(set(as_texts(cells)) - {None}) <= 2
    task = "regression" if is_number and not few else "classification"
    args.console.say(
        f"The target is treated as {task}. Use --task to change this."
    )
    return task
