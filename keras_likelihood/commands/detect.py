"""`keras-likelihood detect`: outlier scores from the shell."""

import csv
import pathlib

import numpy as np

from keras_likelihood.commands.archives import regular_file
from keras_likelihood.commands.command_error import CommandError
from keras_likelihood.commands.csv_tables import read_table
from keras_likelihood.commands.data_files import NUMBERS, read_arrays
from keras_likelihood.commands.options import add_force, at_least
from keras_likelihood.commands.outputs import check_outputs
from keras_likelihood.whole_files import replacing

DETECTORS = {"pca": "PCAScale", "autoencoder": "AutoencoderScale"}


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = subparsers.add_parser(
        "detect",
        help="score the rows of a table by how strange they are",
        description=(
            "Fits an outlier detector to a table without labels and writes "
            "the score and flag of every row."
        ),
    )
    parser.add_argument(
        "data", help="a .csv of numbers, or an .npz with an array X or x"
    )
    parser.add_argument(
        "--detector", default="pca", choices=list(DETECTORS), help="default pca"
    )
    parser.add_argument(
        "--contamination",
        type=float,
        default=0.1,
        help="share of rows to flag, in (0, 0.5] (default 0.1)",
    )
    parser.add_argument("--output", help="a .csv; DATA.scores.csv if unset")
    parser.add_argument("--save", help="where to keep the fitted detector")
    parser.add_argument("--seed", type=at_least(0), default=0)
    parser.add_argument(
        "--top", type=at_least(0), default=10, help="rows to print"
    )
    add_force(parser)
    parser.set_defaults(run=run)
    return parser


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
    from keras_likelihood import outliers

    detector = getattr(outliers, DETECTORS[args.detector])(
        contamination=args.contamination, random_state=args.seed, verbose=True
    )
    detector.fit(x)
    with replacing(output) as temporary:
        _write_scores(temporary, detector)
    if args.save:
        detector.save(args.save)
    _print_top(detector, x, columns, args.top)
    flagged = int(detector.labels_.sum())
    print(f"{flagged} of {len(x)} rows flagged; scores in {output}")
    return 0


def load_table(path):
    """Reads `(rows, columns)` numbers and the columns' names."""
    suffix = pathlib.Path(path).suffix
    if suffix == ".csv":
        return read_table(path)
    if suffix != ".npz":
        regular_file(path)
        raise CommandError(f"Data must be .npz or .csv. Received: {path}")
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


def _print_top(detector, x, columns, count):
    """The strangest rows, each with its most unusual column."""
    print(f"{'row':>8}  {'score':>9}  most unusual column")
    deviation = np.where(detector.kept_, detector.deviation_, np.inf)
    for row in np.argsort(-detector.decision_scores_)[:count]:
        z = np.abs(x[row] / deviation - detector.mean_ / deviation)
        column = int(np.argmax(z))
        print(
            f"{row:>8}  {detector.decision_scores_[row]:>9.3f}  "
            f"{columns[column]} = {x[row, column]:.6g} "
            f"({z[column]:.3g} deviations from the mean)"
        )
