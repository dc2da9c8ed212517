"""`keras-likelihood detect`: outlier scores from the shell."""

import argparse
import csv
import pathlib

import numpy as np

from keras_likelihood.commands.archives import regular_file
from keras_likelihood.commands.command_error import CommandError, UsageError
from keras_likelihood.commands.csv_tables import read_table
from keras_likelihood.commands.data_files import NUMBERS, read_arrays
from keras_likelihood.commands.options import at_least, new_command
from keras_likelihood.commands.outputs import check_outputs
from keras_likelihood.whole_files import replacing

DETECTORS = {"pca": "PCAScale", "autoencoder": "AutoencoderScale"}


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = new_command(
        subparsers,
        "detect",
        help="score the rows of a table by how strange they are",
        text=(
            "Fits an outlier detector to a table without labels and writes "
            "the score and flag of every row. Prints the strangest rows, "
            "and the columns that make them strange."
        ),
        example="keras-likelihood detect table.csv --contamination 0.02",
    )
    parser.add_argument(
        "data", help="a .csv of numbers, or an .npz with an array X or x"
    )
    parser.add_argument(
        "--detector", default="pca", choices=list(DETECTORS), help="default pca"
    )
    parser.add_argument(
        "--contamination",
        type=_share,
        default=0.1,
        help="share of rows to flag, in (0, 0.5] (default 0.1)",
    )
    parser.add_argument("--output", help="a .csv; DATA.scores.csv if unset")
    parser.add_argument("--save", help="where to keep the fitted detector")
    parser.add_argument("--seed", type=at_least(0), default=0)
    parser.add_argument(
        "--top", type=at_least(0), default=10, help="rows to print"
    )
    parser.set_defaults(run=run)
    return parser


def _share(text):
    value = float(text)
    if not 0 < value <= 0.5:
        raise argparse.ArgumentTypeError(
            f"must be in (0, 0.5]. Received: {text}"
        )
    return value


def run(args) -> int:
    """Runs the command; returns the exit status."""
    output = args.output or str(
        pathlib.Path(args.data).with_suffix(".scores.csv")
    )
    check_outputs(
        {"--output": output, "--save": args.save},
        {"data": args.data},
        args.force,
    )
    x, columns = load_table(args.data)
    with args.console.progress("fitting the detector") as on_round:
        detector = fit_detector(
            x,
            on_round,
            DETECTORS[args.detector],
            contamination=args.contamination,
            random_state=args.seed,
        )
    with replacing(output) as temporary:
        _write_scores(temporary, detector)
    if args.save:
        detector.save(args.save)
    _print_top(args.console, strangest(detector, x, columns, args.top))
    flagged = int(detector.labels_.sum())
    args.console.say(
        f"{flagged} of {len(x)} rows flagged: their score is above the "
        f"threshold {detector.threshold_:.3f}. Scores in {output}"
    )
    args.console.result(
        rows=len(x),
        flagged=flagged,
        threshold=detector.threshold_,
        output=output,
        detector=args.save,
    )
    _say_next(args, output)
    return 0


def fit_detector(x, on_round, name: str = "PCAScale", **options):
    """Fits a detector to a table `(rows, columns)`.

    Args:
        x: the table.
        on_round: called with the rounds of training done, and of all.
        name: of the class in `keras_likelihood.outliers`.
        **options: of the detector.
    """
    import keras

    from keras_likelihood import outliers

    detector = getattr(outliers, name)(**options)
    watcher = keras.callbacks.LambdaCallback()
    watcher.on_epoch_end = lambda epoch, logs=None: on_round(
        epoch + 1, watcher.params["epochs"]
    )
    detector.callbacks = [watcher]
    return detector.fit(x)


def load_table(path):
    """Reads `(rows, columns)` numbers and the columns' names."""
    suffix = pathlib.Path(path).suffix
    if suffix == ".csv":
        return read_table(path)
    if suffix != ".npz":
        regular_file(path)
        raise UsageError(f"Data must be .npz or .csv. Received: {path}")
    found = read_arrays(path, (), ("X", "x"))
    if not found:
        raise CommandError(f"{path}: the file needs an array `X` or `x`")
    x = found.get("X", found.get("x"))
    if x.ndim != 2 or x.dtype.kind not in NUMBERS:
        raise CommandError(
            f"{path}: the data must be a table of numbers. "
            f"Received: shape {x.shape} of {x.dtype}"
        )
    return x, [f"column {i}" for i in range(x.shape[-1])]


def _write_scores(path, detector):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "score", "outlier"])
        rows = zip(detector.decision_scores_, detector.labels_, strict=True)
        for number, (score, label) in enumerate(rows):
            writer.writerow([number, f"{score:.6g}", label])


def strangest(detector, x, columns, count: int) -> list[dict]:
    """The strangest rows, each with the columns that make it strange.

    Args:
        detector: fitted to `x`.
        x: the table.
        columns: names of its columns.
        count: how many rows.

    Returns:
        A dict for each row: `row`, `score`, `flagged`, and `columns`, up to
        three dicts of `name`, `value` and `deviations` (robust deviations
        from the median). These are the columns more than three deviations
        away. If there are none, it is the one farthest away, and the row is
        strange as a combination.
    """
    found = []
    spread = np.where(detector.kept_, detector.spread_, np.inf)
    for row in np.argsort(-detector.decision_scores_, kind="stable")[:count]:
        with np.errstate(over="ignore"):
            # Quotients first: the distance of two values may overflow.
            away = x[row] / spread - detector.middle_ / spread
        order = np.argsort(-np.abs(away), kind="stable")[:3]
        far = [at for at in order if abs(away[at]) > 3] or order[:1]
        found.append(
            {
                "row": int(row),
                "score": float(detector.decision_scores_[row]),
                "flagged": bool(detector.labels_[row]),
                "columns": [
                    {
                        "name": columns[at],
                        "value": float(x[row, at]),
                        "deviations": float(away[at]),
                    }
                    for at in far
                ],
            }
        )
    return found


def describe_columns(columns) -> str:
    """The columns of a strange row in words."""
    words = [
        f"{c['name']} = {c['value']:.6g} ({c['deviations']:+.3g} deviations)"
        for c in columns
    ]
    if abs(columns[0]["deviations"]) > 3:
        return ", ".join(words)
    return f"the combination of values; farthest: {words[0]}"


def _print_top(console, rows):
    console.result(strangest=rows)
    if rows:
        console.table(
            ["row", "score", "flagged", "columns that make it strange"],
            [
                [
                    str(row["row"]),
                    f"{row['score']:.3f}",
                    "yes" if row["flagged"] else "no",
                    describe_columns(row["columns"]),
                ]
                for row in rows
            ],
        )
        console.say("(robust deviations from the column's median)", "dim")


def _say_next(args, output):
    if args.save:
        args.console.next_step(
            "score new rows with the saved detector, in Python:",
            f"kl.outliers.{DETECTORS[args.detector]}.load({args.save!r})"
            ".decision_function(x)",
        )
    else:
        args.console.next_step(
            f"look at the rows with outlier = 1 in {output}. To score new "
            "rows later, keep the detector:",
            f"keras-likelihood detect {args.data} --save detector.zip --force",
        )
