"""`keras-likelihood checkup`: one page about a model and its data."""

import argparse
import pathlib
from typing import Any

import numpy as np

from keras_likelihood import outliers
from keras_likelihood.auditing.audit import audit
from keras_likelihood.commands import files
from keras_likelihood.commands.audit import shown, worst_examples
from keras_likelihood.commands.detect import as_cells, strangest_rows
from keras_likelihood.commands.files import shell, shell_on_data, unused
from keras_likelihood.commands.recalibrate import (
    gain,
    score_rows,
    task_of_model,
)
from keras_likelihood.commands.tasks import Task
from keras_likelihood.diagnosis import diagnose
from keras_likelihood.pages.charts import histogram, reliability
from keras_likelihood.pages.examples import show_inputs
from keras_likelihood.pages.page import VERDICTS, Part, Table, write_page
from keras_likelihood.tables.columns import middle_and_spread
from keras_likelihood.tables.number_table import fill_missing, filled_names

FEWEST = 20
"""Smallest number of examples."""
_MOST = 10
"""Number of examples in a table."""
_WIDEST = 1000
"""Largest number of columns for which a detector takes only seconds."""
_FAR = 6.0
"""Robust deviations above the median at which a score stands out."""
_DRAWS = 3
"""Sets of labels that are drawn from the recalibrated model."""
_DIAGNOSED = 5000
"""Largest number of examples in a diagnosis."""


def run(args: argparse.Namespace) -> None:
    model, data, test = files.read_model_and_data(args)
    for path, read in ((args.data, data), (args.test, test or data)):
        inputs, labels = len(read["x"]), len(read["y"])
        if inputs != labels or labels < FEWEST:
            raise files.CommandError(
                f"{path}: a checkup needs at least {FEWEST} examples with "
                f"labels. Received: {inputs} inputs and {labels} labels"
            )
    console = args.console
    with console.progress("checking up") as on_part:
        task = task_of_model(model, data, test, args, halves=True)
        judged = (test or data)["x"][task.judged_rows]
        parts: list[Part] = []
        for section in (
            lambda: _calibration(task, args),
            lambda: _labels(model, data, task, args, judged),
            lambda: _inputs(data, task, args),
            lambda: _training(model, data),
        ):
            parts.append(section())
            on_part(len(parts), 4)
    facts = {"Model": args.model, "Task": task.name, "Data": args.data}
    facts["Calibration judged on"] = args.test or "a random half of the data"
    title = f"Checkup of {pathlib.Path(args.model).name}"
    write_page(args.output, "report.html", title, facts=facts, parts=parts)
    console.table(
        ["part", "verdict", "what was found"],
        [[part.title, VERDICTS[part.verdict], part.summary] for part in parts],
    )
    console.say(f"page: {args.output}")
    names = ("title", "verdict", "summary", "command", "numbers")
    results = [{name: getattr(part, name) for name in names} for part in parts]
    console.result(task=task.name, page=args.output, parts=results)
    urgent = [p for p in parts if p.verdict in ("bad", "look") and p.command]
    first = min(urgent, key=lambda part: part.verdict != "bad", default=None)
    console.next_step(
        f"open {args.output} in a browser."
        + (f" First {first.advice}:" if first else ""),
        first and first.command,
    )


def _calibration(task: Task, args: argparse.Namespace) -> Part:
    fitted = task.fit("auto")
    scores = {"before": task.judge("none"), "after": task.judge("auto")}
    curves = {"before": task.curve("none"), "after": task.curve("auto")}
    chance = task.gap_by_chance()
    verdict, summary = "look", gain(task, *scores.values())
    advice = "recalibrate the model"
    if scores["after"]["NLL"] >= scores["before"]["NLL"]:
        advice += ", with more data than this"
    if scores["before"][task.gap] <= chance:
        verdict = "good"
        summary = f"There is no sign of miscalibration. {task.belief()}"
    elif curves["before"]:
        verdict = "bad"
        summary = f"The model is not calibrated. {task.belief()} {summary}"
    chosen = task.chosen(fitted).split(" + ")
    more = f" and {len(chosen) - 3} others" if chosen[3:] else ""
    words = (
        "With this many examples, 95 of 100 perfectly calibrated models "
        f"have a calibration error ({task.gap}) below {chance:.4f}. The model "
        f"is judged on {args.test or 'a held-out half of the data'}. "
        f"Recalibration: {', '.join(chosen[:3])}{more}."
    )
    table = Table(["", *task.scores], score_rows(task, scores))
    options = {"test": args.test, "output": unused("calibrated.keras")}
    line = shell_on_data(args, "recalibrate", **options)
    return Part(
        "Calibration",
        summary,
        [words, table, reliability(curves, *task.axes)],
        verdict,
        advice,
        None if verdict == "good" else line,
        {**scores, "by_chance": chance},
    )


def _labels(
    model: Any,
    data: dict[str, Any],
    task: Task,
    args: argparse.Namespace,
    judged: Any,
) -> Part:
    """Finds doubtful labels or targets; `judged` are the inputs judged on."""
    classes = task.name == "classification"
    what = "labels" if classes else "targets"
    options: dict[str, Any] = {"task": task.name}
    options["label_names"] = data.get("labels") if classes else None
    options["from_logits"] = False if args.probabilities else None
    try:
        with files.running(args.model, args.data):
            report = audit(model, data["x"], data["y"], None, **options)
    except ValueError as error:
        return Part(f"Doubtful {what}", str(error), verdict="unknown")
    words = [report.rule]
    n, issues = len(report.scores), report.num_issues
    summary = f"{issues:,} of {n:,} {what} are suspected ({issues / n:.1%})."
    is_usual = not issues
    if is_usual:
        summary = f"None of the {n:,} {what} is suspected."
    elif classes and np.ndim(data["y"]) == 1:
        usual = _usual_share(model, judged, task, options)
        is_usual = issues <= n * usual + 2 * np.sqrt(n * usual)
        words.append(
            f"If labels are drawn from the probabilities of the recalibrated "
            f"model, so that none is wrong, {usual:.1%} are suspected."
        )
        if is_usual:
            summary = (
                f"There is no sign of wrong labels: {issues:,} of {n:,} "
                "surprise the model, as is usual if all are right."
            )
    worst = worst_examples(report, most=_MOST)
    cells = [list(map(shown, row.values())) for row in worst]
    title = f"The most suspicious {what}" if issues else "The highest scores"
    return Part(
        f"Doubtful {what}",
        summary,
        [*words, _examples_table(title, list(worst[0]), data["x"], cells)],
        "good" if is_usual else "look",
        f"review the {what} on the page of an audit and correct them",
        shell_on_data(args, "audit", output=unused("audit.html")),
        {"suspected": issues, "examples": n, "worst": worst},
    )


def _usual_share(
    model: Any, x: Any, task: Task, options: dict[str, Any]
) -> float:
    """Share of suspected labels if the recalibrated model draws them."""
    p = task.output("auto").reshape(len(x), -1)
    p = p if p.shape[1] > 1 else np.concatenate([1 - p, p], axis=1)
    random, shares = np.random.default_rng(0), []
    for _ in range(_DRAWS):
        steps = p.cumsum(axis=1)[:, :-1]
        drawn = (random.random((len(p), 1)) > steps).sum(axis=1)
        report = audit(model, x, drawn, None, **options)
        shares.append(report.num_issues / len(p))
    return float(np.mean(shares))


def _examples_table(
    title: str, columns: list[str], x: Any, rows: list[list[str]]
) -> Table:
    """A table of examples by their numbers, with thumbnails or texts."""
    seen = show_inputs(x)
    cells = [seen.cell(int(row[0])) for row in rows]
    if any(cells):
        columns = ["input", *columns]
        rows = [[c, *row] for c, row in zip(cells, rows, strict=True)]
    return Table(columns, rows, f"{title}, counted from 0")


def _inputs(data: dict[str, Any], task: Task, args: argparse.Namespace) -> Part:
    """Finds strange inputs."""
    title, command, x = "Strange inputs", None, data.get("shown", data["x"])
    table, source = task.features, "feature of the model"
    if x.ndim == 2 and x.dtype.kind in "biuf" and x.shape[1] <= _WIDEST:
        table, source = fill_missing(x), "column"
        command = shell("detect", args.data, save=unused("detector.zip"))
    if table is None or table[0].size > _WIDEST:
        words = (
            "No detector can be fitted: the inputs are not a table, and the "
            "model has no layer of features."
        )
        return Part(title, words, verdict="unknown")
    table = table.reshape(len(table), -1)
    if not (np.ptp(table, axis=0) > 0).any():
        return Part(title, "All inputs are the same.", verdict="unknown")
    detector = outliers.PCAScale(random_state=0).fit(table)
    scores = detector.decision_scores_
    middle, spread = middle_and_spread(scores)
    far = scores > middle + _FAR * max(spread, 1e-9)
    names = data.get("names")
    if names and source == "column":
        names = filled_names(x, names)
    else:
        names = [f"{source} {i}" for i in range(table.shape[1])]
    strangest = strangest_rows(detector, table, names, _MOST)
    cells = [[n, s, words] for n, s, _, words in map(as_cells, strangest)]
    columns = ["example", "score", "what makes it strange"]
    count = int(far.sum())
    return Part(
        title,
        f"{count:,} of {len(table):,} inputs score far above the others."
        if count
        else f"None of the {len(table):,} inputs stands out.",
        [
            f"The detector uses every {source}. An input stands out if "
            f"its score is more than {_FAR:.0f} robust deviations above the "
            "median.",
            histogram(scores, far, "score of the detector", "far above"),
            _examples_table("The strangest inputs", columns, x, cells),
        ],
        "look" if count else "good",
        "score all rows and save the detector",
        command,
        {"far": count, "examples": len(table), "strangest": strangest},
    )


def _training(model: Any, data: dict[str, Any]) -> Part:
    title = "Diagnosis of the training"
    try:
        findings = diagnose(model, *(data[k][:_DIAGNOSED] for k in ("x", "y")))
    except ValueError as error:
        return Part(title, str(error), verdict="unknown")
    if not findings:
        return Part(title, "Nothing suspicious was found.", verdict="good")
    return Part(
        title,
        f"{len(findings)} finding(s): {', '.join(findings.names)}.",
        [f"{f.message} {f.remedy} ({f.numbers})" for f in findings],
        "bad",
        "follow the advice of the diagnosis",
        numbers={"findings": findings.names},
    )
