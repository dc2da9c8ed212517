"""`keras-likelihood detect`: outlier scores from the shell."""

import csv
import pathlib

import numpy as np

from keras_likelihood.commands.data_files import existing, plain_arrays

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
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--top", type=int, default=10, help="rows to print")
    parser.set_defaults(run=run)
    return parser


def run(args) -> int:
    """Runs the command; returns the exit status."""
    from keras_likelihood import outliers

    x, columns = load_table(args.data)
    detector = getattr(outliers, DETECTORS[args.detector])(
        contamination=args.contamination, random_state=args.seed, verbose=True
    )
    try:
        detector.fit(x)
    except ValueError as error:
        raise SystemExit(f"{args.data}: {error}") from error
    output = args.output or str(
        pathlib.Path(args.data).with_suffix(".scores.csv")
    )
    with open(output, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "score", "outlier"])
        rows = zip(detector.decision_scores_, detector.labels_, strict=True)
        for number, (score, label) in enumerate(rows):
            writer.writerow([number, f"{score:.6g}", label])
    if args.save:
        detector.save(args.save)
    _print_top(detector, x, columns, args.top)
    flagged = int(detector.labels_.sum())
    print(f"{flagged} of {len(x)} rows flagged; scores in {output}")
    return 0


def load_table(path):
    """Reads `(rows, columns)` numbers and the columns' names."""
    path = existing(path)
    if path.suffix == ".npz":
        x = _load_npz(path)
        names = [f"column {i}" for i in range(x.shape[-1])]
    elif path.suffix == ".csv":
        x, names = _load_csv(path)
    else:
        raise SystemExit(f"Data must be .npz or .csv. Received: {path}")
    if x.ndim != 2 or x.dtype.kind not in "fiub":
        raise SystemExit(
            f"{path}: the data must be a table of numbers. "
            f"Received: shape {x.shape} of {x.dtype}"
        )
    return x, names


def _load_npz(path):
    with plain_arrays(path) as file:
        for name in ("X", "x"):
            if name in file:
                return file[name]
        raise SystemExit(
            f"{path}: the file needs an array X. Received: {file.files}"
        )


def _load_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows:
        raise SystemExit(f"{path}: the file is empty")
    names = [f"column {i}" for i in range(len(rows[0]))]
    if not any(map(_is_number, rows[0])):
        names, rows = rows[0], rows[1:]
    for number, row in enumerate(rows):
        wrong = [cell for cell in row if not _is_number(cell)]
        if wrong or len(row) != len(names):
            raise SystemExit(
                f"{path}: every row must hold {len(names)} numbers. Received "
                f"in row {number}: {wrong[0] if wrong else len(row)!r}"
            )
    return np.array(rows, dtype="float64"), names


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _print_top(detector, x, columns, count):
    """The strangest rows, each with its most unusual column."""
    z = np.abs(x - detector.mean_) / np.where(
        detector.kept_, detector.deviation_, np.inf
    )
    print(f"{'row':>8}  {'score':>9}  most unusual column")
    for row in np.argsort(-detector.decision_scores_)[:count]:
        column = int(np.argmax(z[row]))
        print(
            f"{row:>8}  {detector.decision_scores_[row]:>9.3f}  "
            f"{columns[column]} = {x[row, column]:.6g} "
            f"({z[row, column]:.1f} deviations from the mean)"
        )
