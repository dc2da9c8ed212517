"""`keras-likelihood detect`: outlier scores from the shell."""

import argparse
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.commands import files, outputs
from keras_likelihood.tables import csv_files
from keras_likelihood.tables.table_files import NumberTable, is_text_table

DETECTORS = {"pca": "PCAScale", "autoencoder": "AutoencoderScale"}
_SHOWN = ["row", "score", "flagged", "columns that make it strange"]
Progress = Callable[[int, int], None]
FIT_ROWS = 2**18
"""Largest number of rows that a detector is fitted to.

Its training uses 256,000 rows in total.
"""


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 0.5:
        raise argparse.ArgumentTypeError(
            f"must be in (0, 0.5]. Received: {text}"
        )
    return value


add_parser = outputs.new_command(
    "detect",
    help="score the rows of a table by how strange they are",
    text="Fits an outlier detector to a table without labels, and writes a "
    "score and a flag for every row. Prints the strangest rows and the columns "
    "that make them strange.",
    example="keras-likelihood detect table.csv --contamination 0.02",
    options={
        "data": "a .csv, a .parquet, or an .npz with an array X or x. "
        "A .csv or .parquet may be larger than the memory",
        "--detector": "detector to fit (default: %(default)s)",
        "--contamination": "share of rows to flag, in (0, 0.5] (default: "
        "%(default)s)",
        "--output": "a .csv with the scores (default: DATA.scores.csv)",
        "--page": "also write an HTML page of the strangest rows",
        "--save": "also write the fitted detector, a .zip",
        "--seed": "random seed (default: %(default)s)",
        "--top": "number of rows to print (default: %(default)s)",
    },
    detector={"default": "pca", "choices": list(DETECTORS)},
    contamination={"type": _share, "default": 0.1},
    top={"type": outputs.at_least(0), "default": 10},
)


def run(args: argparse.Namespace) -> None:
    default = pathlib.Path(args.data).with_suffix(".scores.csv")
    args.output = args.output or str(default)
    outputs.check_files(args, "output", "save", "page")
    if args.page:
        # A missing package must fail before the long computation.
        import keras_likelihood.pages.page  # noqa: F401
    table, console = TableFile(args.data), args.console
    for note in table.notes:
        console.say(f"{note}.")
    name = DETECTORS[args.detector]
    options = {"contamination": args.contamination, "random_state": args.seed}
    x, count = table.sample(FIT_ROWS, np.random.default_rng(args.seed))
    with console.progress("fitting the detector") as on_round:
        detector = fit_detector(x, on_round, name, **options)
    scores, rows, places = detector.decision_scores_, x, np.arange(count)
    if count > len(x):
        with console.progress("scoring the rows") as on_rows:
            scores, rows, places = score_parts(
                detector, table, count, args.top, on_rows
            )
    flags = scores > detector.threshold_
    columns = {"row": range(count), "score": (f"{s:.6g}" for s in scores)}
    csv_files.write_csv(args.output, columns | {"outlier": flags.astype(int)})
    if args.save:
        detector.save(args.save)
    found = strangest(
        detector, rows, places, scores[places], table.filled_names, args.top
    )
    words = (
        f"{int(flags.sum())} of {count} rows are flagged, the share set by "
        f"--contamination ({args.contamination:g}). Their scores are above the "
        f"threshold {detector.threshold_:.3f}."
    )
    if len(x) < count:
        words += (
            f" The detector was fitted to a random sample of {len(x)} rows."
        )
    cells = [
        [
            str(row["row"]),
            f"{row['score']:.3f}",
            "yes" if row["flagged"] else "no",
            describe_columns(row["columns"]),
        ]
        for row in found
    ]
    if cells:
        console.table(_SHOWN, cells)
        console.say("(robust deviations from the column's median)", "dim")
    console.say(f"{words} The scores are in {args.output}")
    console.result(strangest=found, rows=count, fitted_rows=len(x))
    console.result(flagged=flags.sum(), threshold=detector.threshold_)
    console.result(notes=table.notes, detector=args.save, page=args.page)
    console.result(output=args.output)
    if args.page:
        _write_page(args, [words, *table.notes], scores, flags, cells)
    if args.save:
        console.next_step(
            "score new rows with the saved detector, in Python:",
            f"kl.outliers.{name}.load({args.save!r}).decision_function(x)",
        )
        return
    save = outputs.unused("detector.zip")
    console.next_step(
        f"look at the rows with outlier = 1 in {args.output}. To score new "
        "rows later, keep the detector:",
        outputs.shell("detect", args.data, save=save, force=True),
    )


def _write_page(
    args: argparse.Namespace,
    notes: list[str],
    scores: Array,
    flags: Array,
    cells: list[list[str]],
) -> None:
    from keras_likelihood.pages.charts import histogram
    from keras_likelihood.pages.page import Part, Table, write_page

    part = Part(
        "Strange rows",
        " ".join(f"{note.removesuffix('.')}." for note in notes),
        [
            histogram(scores, flags, "score", "flagged"),
            Table(_SHOWN, cells, "The strangest rows"),
            "Deviations are robust: from the column's median, in units of its "
            "median deviation.",
        ],
    )
    facts = {"Data": args.data, "Detector": DETECTORS[args.detector]}
    title = f"Strange rows of {pathlib.Path(args.data).name}"
    write_page(args.page, "report.html", title, facts=facts, parts=[part])


def fit_detector(
    x: Array, on_round: Progress, name: str = "PCAScale", **options: Any
) -> Any:
    """Fits a detector to a table `(rows, columns)`."""
    import keras

    from keras_likelihood import outliers

    detector = getattr(outliers, name)(**options)
    watcher = keras.callbacks.LambdaCallback()
    watcher.on_epoch_end = lambda epoch, logs=None: on_round(
        epoch + 1, watcher.params["epochs"]
    )
    detector.callbacks = [watcher]
    return detector.fit(x)


def describe_columns(columns: list[dict[str, Any]]) -> str:
    """Describes the columns of a strange row."""
    words = [
        f"{c['name']} = {c['value']:.6g} ({c['deviations']:+.3g} deviations)"
        for c in columns
    ]
    if abs(columns[0]["deviations"]) > 3:
        return ", ".join(words)
    return f"the combination of its values; most unusual: {words[0]}"


class TableFile(NumberTable):
    """A .csv, a .parquet, or an .npz with an array `X` or `x`."""

    def __init__(self, path: str):
        kind = pathlib.Path(path).suffix.lower()
        if kind == ".parquet" or is_text_table(path):
            super().__init__(path)
            return
        if kind != ".npz":
            raise files.UsageError(
                "The table must be an .npz, a .csv or a .parquet. "
                f"Received: {path}"
            )
        found = files.read_arrays(path, (), ("X", "x"))
        x = found.get("X", found.get("x", np.zeros(0)))
        if x.ndim != 2 or x.dtype.kind not in files.NUMBERS:
            received = f"shape {x.shape} of {x.dtype}" if found else "neither"
            raise files.CommandError(
                f"{path}: the file needs an array `X` or `x` that is a table "
                f"of numbers. Received: {received}"
            )
        names = [f"column {i}" for i in range(x.shape[1])]
        ends = range(csv_files.PART_ROWS, len(x), csv_files.PART_ROWS)
        parts = np.split(x, ends)
        super().__init__(
            path, pieces=lambda: ((names, list(part.T)) for part in parts)
        )

    def sample(
        self, most: int, random: np.random.Generator
    ) -> tuple[Array, int]:
        """A random sample of at most `most` rows, and the number of rows.

        The sampled rows keep their order.
        """
        rows, keys = np.empty((0, len(self.filled_names))), np.empty(0)
        count = 0
        for part in self.chunks():
            rows = np.concatenate([rows, part])
            keys = np.concatenate([keys, random.random(len(part))])
            count += len(part)
            if len(keys) > most:
                kept = np.sort(np.argpartition(keys, most - 1)[:most])
                rows, keys = rows[kept], keys[kept]
        return rows, count


def score_parts(
    detector: Any, table: TableFile, count: int, top: int, on_rows: Progress
) -> tuple[Array, Array, Array]:
    """Scores a table of `count` rows part by part.

    Returns all scores `(count,)`, the `top` rows with the highest scores, and
    their places. Sets the threshold of the detector from all scores.
    """
    scores, done = np.empty(count), 0
    rows, places = np.empty((0, len(table.filled_names))), np.arange(0)
    for part in table.chunks():
        end = done + len(part)
        scores[done:end] = detector.decision_function(part)
        places = np.concatenate([places, np.arange(done, end)])
        rows = np.concatenate([rows, part])
        order = np.argsort(-scores[places], kind="stable")[:top]
        places, rows, done = places[order], rows[order], end
        on_rows(done, count)
    detector._set_threshold(scores)
    return scores, rows, places


def strangest(
    detector: Any,
    rows: Array,
    places: Array,
    scores: Array,
    columns: list[str],
    count: int,
) -> list[dict[str, Any]]:
    """The strangest rows, each with the columns that make it strange.

    `places` are the row numbers in the table. Each dict has up to three
    `columns` that are more than three robust `deviations` from the median. If
    there are none, it has the farthest column, and the combination is strange.
    """
    spread = np.where(detector.kept_, detector.spread_, np.inf)
    found = []
    for at in np.argsort(-scores, kind="stable")[:count]:
        row, score = rows[at], float(scores[at])
        with np.errstate(over="ignore"):
            # The division comes first, because the distance of two values
            # may overflow.
            away = row / spread - detector.middle_ / spread
        order = np.argsort(-np.abs(away), kind="stable")[:3]
        far = [i for i in order if abs(away[i]) > 3] or order[:1]
        values = [(columns[i], float(row[i]), float(away[i])) for i in far]
        keys = ("name", "value", "deviations")
        found.append(
            {
                "row": int(places[at]),
                "score": score,
                "flagged": score > detector.threshold_,
                "columns": [dict(zip(keys, v, strict=True)) for v in values],
            }
        )
    return found
