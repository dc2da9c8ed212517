"""The parts of a checkup, one function each."""

from argparse import Namespace
from typing import Any

import numpy as np

from keras_likelihood.auditing import fill_missing
from keras_likelihood.auditing.audit import audit
from keras_likelihood.backend.types import Array
from keras_likelihood.commands import detect
from keras_likelihood.commands.audit import shown, worst_examples
from keras_likelihood.commands.console import Progress
from keras_likelihood.commands.outputs import shell, shell_on_data, unused
from keras_likelihood.commands.recalibrate import gain, score_cells
from keras_likelihood.diagnosis import diagnose
from keras_likelihood.pages.charts import histogram, reliability
from keras_likelihood.pages.examples import show_inputs
from keras_likelihood.pages.page import Part, Table

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


def _examples_table(
    title: str, columns: list[str], x: Any, numbers: Any, rows: list[Any]
) -> Table:
    """A table of examples, with thumbnails or texts if there are any.

    `columns` and `rows` follow the number of the example.
    """
    columns = ["example", *columns]
    rows = [[str(n), *row] for n, row in zip(numbers, rows, strict=True)]
    seen = show_inputs(x)
    cells = [seen.cell(int(number)) for number in numbers]
    if any(cells):
        columns = ["input", *columns]
        rows = [[c, *row] for c, row in zip(cells, rows, strict=True)]
    return Table(columns, rows, title)


def check_calibration(task: Any, args: Namespace) -> Part:
    """Checks the calibration."""
    fitted = task.fit("auto")
    scores = {"before": task.judge("none"), "after": task.judge("auto")}
    curves = {"before": task.curve("none"), "after": task.curve("auto")}
    chance = task.gap_by_chance()
    belief, gained = task.belief(), gain(task, *scores.values())
    if not curves["before"]:
        verdict, summary = "look", gained
    elif scores["before"][task.gap] <= chance:
        verdict = "good"
        summary = f"There is no sign of miscalibration. {belief}"
    else:
        verdict = "bad"
        summary = f"The model is not calibrated. {belief} {gained}"
    chosen = task.chosen(fitted).split(" + ")
    more = f" and {len(chosen) - 3} others" if chosen[3:] else ""
    words = (
        f"With this many examples, 95 of 100 perfectly calibrated models "
        f"have a calibration error ({task.gap}) below {chance:.4f}. The model "
        f"is judged on {args.test or 'a held-out half of the data'}. "
        f"Recalibration: {', '.join(chosen[:3])}{more}."
    )
    rows = [[name, *score_cells(task, row)] for name, row in scores.items()]
    command = None
    if verdict != "good":
        files = {"test": args.test, "output": unused("calibrated.keras")}
        command = shell_on_data(args, "recalibrate", **files)
    figure = reliability(curves, task.expected, task.observed)
    body = [words, Table(["", *task.scores], rows), figure]
    advice, numbers = "recalibrate the model", {**scores, "by_chance": chance}
    title = "Calibration"
    return Part(title, summary, body, verdict, advice, command, numbers)


def check_labels(
    model: Any,
    data: dict[str, Any],
    names: list[str] | None,
    task: Any,
    args: Namespace,
    judged: Any,
) -> Part:
    """Finds doubtful labels or targets; `judged` are the inputs judged on."""
    classes = task.name == "classification"
    what = "labels" if classes else "targets"
    title = f"Doubtful {what}"
    options: dict[str, Any] = {"task": task.name}
    options["label_names"] = names if classes else None
    options["from_logits"] = False if args.probabilities else None
    try:
        report = audit(model, data["x"], data["y"], None, **options)
    except ValueError as error:
        return Part(title, str(error), verdict="unknown")
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
            summary += " That is no more than if all labels were right."
    worst = worst_examples(report, most=_MOST)
    table = _examples_table(
        f"The most suspicious {what}" if issues else "The highest scores",
        list(worst[0])[1:],
        data["x"],
        [row["example"] for row in worst],
        [list(map(shown, row.values()))[1:] for row in worst],
    )
    return Part(
        title,
        summary,
        [*words, table],
        "good" if is_usual else "look",
        f"review the {what} on the page of an audit and correct them",
        shell_on_data(args, "audit", output=unused("audit.html")),
        {"suspected": issues, "examples": n, "worst": worst},
    )


def _usual_share(
    model: Any, x: Any, task: Any, options: dict[str, Any]
) -> float:
    """Share of suspected labels if the recalibrated model draws them."""
    p = task.probabilities("auto").reshape(len(x), -1)
    p = p if p.shape[1] > 1 else np.concatenate([1 - p, p], axis=1)
    random, shares = np.random.default_rng(0), []
    for _ in range(_DRAWS):
        steps = p.cumsum(axis=1)[:, :-1]
        drawn = (random.random((len(p), 1)) > steps).sum(axis=1)
        report = audit(model, x, drawn, None, **options)
        shares.append(report.num_issues / len(p))
    return float(np.mean(shares))


def check_inputs(
    x: Any,
    rows: Array,
    names: list[str] | None,
    task: Any,
    args: Namespace,
    on_round: Progress,
) -> Part:
    """Finds strange inputs; `task` was fitted to `rows`."""
    title, command, numbers = "Strange inputs", None, np.arange(len(x))
    table: Array | None
    if x.ndim == 2 and x.dtype.kind in "biuf" and x.shape[1] <= _WIDEST:
        table, source = fill_missing(x), "column"
        command = shell("detect", args.data, save=unused("detector.zip"))
    else:
        source = "feature of the model"
        table = _features(task, len(rows) < len(x))
        numbers = np.concatenate([rows, np.setdiff1d(numbers, rows)])
    if table is None:
        words = (
            "No detector can be fitted: the inputs are not a table, and the "
            "model has no layer of features."
        )
        return Part(title, words, verdict="unknown")
    if not (np.ptp(table, axis=0) > 0).any():
        return Part(title, "All inputs are the same.", verdict="unknown")
    detector = detect.fit_detector(table, on_round, random_state=0)
    scores = detector.decision_scores_
    middle = np.median(scores)
    spread = 1.4826 * np.median(np.abs(scores - middle))
    far = scores > middle + _FAR * max(spread, 1e-9)
    if names and source == "column":
        gaps = np.isnan(x).any(axis=0)
        names = [*names, *(f"{names[i]} is missing" for i in np.where(gaps)[0])]
    else:
        names = [f"{source} {i}" for i in range(table.shape[1])]
    strangest = detect.strangest(detector, table, numbers, names, _MOST)
    count = int(far.sum())
    examples = _examples_table(
        "The strangest inputs",
        ["score", "what makes it strange"],
        x,
        [row["row"] for row in strangest],
        [
            [f"{row['score']:.3f}", detect.describe_columns(row["columns"])]
            for row in strangest
        ],
    )
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
            examples,
        ],
        "look" if count else "good",
        "score all rows and save the detector",
        command,
        {"far": count, "examples": len(table), "strangest": strangest},
    )


def _features(task: Any, is_split: bool) -> Array | None:
    """Features of the model `(n, columns)`, or `None`."""
    parts = [task.fitted_to, task.judged_on] if is_split else [task.fitted_to]
    features = [part.get("features") for part in parts]
    if features[0] is None:
        return None
    table = np.concatenate([f.reshape(len(f), -1) for f in features])
    return table if table.shape[1] <= _WIDEST else None


def check_training(model: Any, data: dict[str, Any]) -> Part:
    """Runs `diagnose`."""
    title = "Diagnosis of the training"
    try:
        findings = diagnose(
            model, data["x"][:_DIAGNOSED], data["y"][:_DIAGNOSED]
        )
    except ValueError as error:
        words = str(error)
        if "likelihood loss" in words:
            words = (
                "The model has no likelihood loss of this package, so there "
                "are no likelihood parameters to check."
            )
        return Part(title, words, verdict="unknown")
    if not findings:
        return Part(title, "Nothing suspicious was found.", verdict="good")
    return Part(
        title,
        f"{len(findings)} finding(s): {', '.join(findings.names)}.",
        [f"{f.message} {f.remedy} ({f.numbers})" for f in findings],
        "bad",
        "follow the advice of the diagnosis",
        None,
        {"findings": findings.names},
    )
