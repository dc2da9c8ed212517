"""`keras-likelihood fit`: from a table to a model that knows its limits."""

import numpy as np

from keras_likelihood.backend.csv_tables import CsvTable, is_missing
from keras_likelihood.commands.files import (
    CommandError,
    is_text_table,
    regular_file,
)
from keras_likelihood.commands.outputs import (
    add_task,
    at_least,
    check_outputs,
    new_command,
    shell,
    unused,
)


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = new_command(
        subparsers,
        "fit",
        help="train a model that predicts a column of a table",
        text=(
            "Trains networks that predict a column of a .csv from the others, "
            "with calibrated intervals for a number and probabilities for "
            "classes. Says how good they are on rows that were not trained "
            "on, and writes the model and a page about it."
        ),
        example="keras-likelihood fit table.csv --target price",
    )
    parser.add_argument("data", help="a .csv with names in its first line")
    parser.add_argument(
        "--target", help="the column to predict (default: the last)"
    )
    add_task(parser)
    parser.add_argument(
        "--output", default="model.keras", help="default: %(default)s"
    )
    parser.add_argument("--report", help="an HTML page about the model")
    parser.add_argument(
        "--members", type=at_least(2), default=8, help="networks (default 8)"
    )
    parser.add_argument(
        "--epochs", type=at_least(1), help="found from the rows if unset"
    )
    parser.add_argument("--seed", type=at_least(0), default=0)
    return parser


def run(args) -> None:
    """Runs the command."""
    check_outputs(
        {"--output": args.output, "--report": args.report},
        {"data": args.data},
        args.force,
    )
    if not args.output.endswith(".keras"):
        raise CommandError(
            f"--output must end in .keras. Received: {args.output}"
        )
    if args.report:
        # A missing package must not cost the work that follows.
        import keras_likelihood.pages.page  # noqa: F401
    cells = read_cells(args.data)
    target = args.target or list(cells)[-1]
    if target not in cells or len(cells) < 2:
        raise CommandError(
            f"{args.data}: the target must be one of two columns or more. "
            f"Received: {target} of {', '.join(list(cells)[:20])}"
        )
    y, kept = _targets(args, cells.pop(target))
    from keras_likelihood import tabular

    is_number = y.dtype.kind == "f"
    kind = tabular.Regressor if is_number else tabular.Classifier
    model = kind(
        members=args.members,
        epochs=args.epochs,
        random_state=args.seed,
    )
    with args.console.progress("training") as model.on_round:
        model.fit({name: v[kept] for name, v in cells.items()}, y[kept])
    model.save(args.output)
    args.console.say(model.summary().replace("\n", ". "))
    if args.report:
        model.report(args.report)
    args.console.result(
        output=args.output,
        report=args.report,
        scores=model.scores_,
        likelihood=model.likelihood_.name(),
    )
    args.console.next_step(
        "predict rows, here those of the same table:",
        shell(
            "predict",
            args.output,
            args.data,
            output=unused("predictions.csv"),
        ),
    )


def read_cells(path) -> dict:
    """The columns of a .csv by name, as `CsvTable.cells` returns them."""
    path = regular_file(path)
    if not is_text_table(path):
        raise CommandError(f"The table must be a .csv. Received: {path}")
    return CsvTable(path).cells()


def _targets(args, cells):
    """Targets, float64 or texts, and which rows have one."""
    numbers = cells.dtype.kind == "f"
    texts = np.array([str(cell).strip() for cell in cells])
    kept = np.array([not is_missing(text) for text in texts], bool)
    if not kept.any():
        raise CommandError(f"{args.data}: the target is missing in every row")
    if not kept.all():
        left = int((~kept).sum())
        args.console.say(f"Left out: {left} row(s) without a target.")
    task = args.task
    if task is None:
        few = len(np.unique(cells[kept] if numbers else texts[kept])) <= 2
        task = "regression" if numbers and not few else "classification"
        args.console.say(
            f"The target is taken for {task}; --task says otherwise."
        )
    if task == "regression" and not numbers:
        raise CommandError(
            f"{args.data}: the target must hold numbers for --task "
            f"regression. Received: {texts[kept][0][:40]!r}"
        )
    if task == "regression":
        return cells.astype("float64"), kept
    if numbers:
        texts = np.array([f"{cell:g}" for cell in cells])
    return texts, kept
