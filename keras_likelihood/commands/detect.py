"""`keras-likelihood detect`: outlier scores from the shell."""

import argparse
import pathlib
from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.commands import files
from keras_likelihood.commands.console import callback
from keras_likelihood.commands.options import DETECTORS
from keras_likelihood.tables.csv_files import write_csv
from keras_likelihood.tables.number_table import NumberTable
from keras_likelihood.tables.reading import is_text_table


def run(args: argparse.Namespace) -> None:
    if args.page:
        # A missing package must fail before the long computation.
        import keras_likelihood.pages.page  # noqa: F401
    x, names, notes = read_table(args.data)
    # A bad table is refused before a backend is imported.
    from keras_likelihood import outliers

    console = args.console
    for note in notes:
        console.say(f"{note}.")
    name = DETECTORS[args.detector]
    options = {"contamination": args.contamination, "random_state": args.seed}
    with console.progress("fitting the detector") as on_round:
        detector = getattr(outliers, name)(**options)
        detector.callbacks = [callback(on_round)]
        detector.fit(x)
    scores, flags = detector.decision_scores_, detector.labels_
    columns = {"row": range(len(x)), "score": (f"{s:.6g}" for s in scores)}
    write_csv(args.output, columns | {"outlier": flags})
    if args.save:
        detector.save(args.save)
    rows = strangest_rows(detector, x, names, args.top)
    headings = ["row", "score", "flagged", "columns that make it strange"]
    cells = list(map(as_cells, rows))
    words = (
        f"{flags.sum()} of {len(x)} rows are flagged, the share set by "
        f"--contamination ({args.contamination:g}). Their scores are above the "
        f"threshold {detector.threshold_:.3f}."
    )
    if cells:
        console.table(headings, cells)
        meaning = "robust deviations from the column's median"
        console.say(f"({meaning}; rows are counted from 0)", "dim")
    console.say(f"{words} The scores are in {args.output}")
    console.result(strangest=rows, rows=len(x), flagged=flags.sum())
    console.result(threshold=detector.threshold_, notes=notes)
    console.result(output=args.output, detector=args.save, page=args.page)
    if args.page:
        from keras_likelihood.pages.charts import histogram
        from keras_likelihood.pages.page import Part, Table, write_page

        figure = histogram(scores, flags == 1, "score", "flagged")
        note = "Deviations are robust: from the column's median, in units of "
        body: list[Any] = [figure, f"{note}its median deviation."]
        if cells:
            caption = "The strangest rows, counted from 0"
            body += [Table(headings, cells, caption)]
        summary = " ".join([words, *(f"{note}." for note in notes)])
        part = Part("Strange rows", summary, body)
        facts = {"Data": args.data, "Detector": name}
        title = f"Strange rows of {pathlib.Path(args.data).name}"
        write_page(args.page, "report.html", title, facts=facts, parts=[part])
    if args.save:
        console.next_step(
            "score new rows with the saved detector, in Python:",
            f"kl.outliers.{name}.load({args.save!r}).decision_function(x)",
        )
        return
    save = files.unused("detector.zip")
    console.next_step(
        f"look at the rows with outlier = 1 in {args.output}. To score new "
        "rows later, keep the detector:",
        files.shell("detect", args.data, save=save, force=True),
    )


def as_cells(row: dict[str, Any]) -> list[str]:
    """Number, score, flag and columns of a strange row, as texts."""
    words = [
        f"{c['name']}: {c['value']:.6g} ({c['deviations']:+.3g} deviations)"
        for c in row["columns"]
    ]
    text = ", ".join(words)
    if abs(row["columns"][0]["deviations"]) <= 3:
        text = f"the combination of its values; most unusual: {text}"
    flag = "yes" if row["flagged"] else "no"
    return [str(row["row"]), f"{row['score']:.3f}", flag, text]


def read_table(path: str) -> tuple[Array, list[str], list[str]]:
    """Rows without missing numbers, the names of the columns, and notes."""
    kind = pathlib.Path(path).suffix.lower()
    if kind == ".parquet" or is_text_table(path):
        table = NumberTable(path)
        return *table.filled(), table.notes
    if kind != ".npz":
        raise files.UsageError(
            f"The table must be an .npz, a .csv or a .parquet. Received: {path}"
        )
    arrays = files.read_arrays(path, (), ("X", "x"))
    x = arrays.get("X", arrays.get("x", np.zeros(0)))
    if x.ndim != 2 or x.dtype.kind not in files.NUMBERS:
        received = f"shape {x.shape} of {x.dtype}" if arrays else "neither"
        raise files.CommandError(
            f"{path}: the file needs an array `X` or `x` that is a table of "
            f"numbers. Received: {received}"
        )
    return x, [f"column {i}" for i in range(x.shape[1])], []


def strangest_rows(
    detector: Any, x: Array, names: list[str], count: int
) -> list[dict[str, Any]]:
    """The strangest training rows, with the columns that make them strange.

    Without a column farther than three deviations, the combination is strange.
    """
    scores = detector.decision_scores_
    spread = np.where(detector.kept_, detector.spread_, np.inf)
    rows = []
    for at in np.argsort(-scores, kind="stable")[:count].tolist():
        with np.errstate(over="ignore"):
            # The division comes first, because the distance of two values
            # may overflow.
            away = x[at] / spread - detector.middle_ / spread
        order = np.argsort(-np.abs(away), kind="stable")[:3]
        columns = [
            {"name": names[i], "value": float(x[at, i]), "deviations": away[i]}
            for i in [i for i in order if abs(away[i]) > 3] or order[:1]
        ]
        row = {"row": at, "score": float(scores[at]), "columns": columns}
        rows.append(row | {"flagged": bool(detector.labels_[at])})
    return rows
