"""The parts of a checkup, one function for each."""

import numpy as np

from keras_likelihood.commands import pictures
from keras_likelihood.commands.audit import shown, worst_examples
from keras_likelihood.commands.detect import (
    describe_columns,
    fit_detector,
)
from keras_likelihood.commands.part import Part
from keras_likelihood.commands.pictures import escape, html_table
from keras_likelihood.commands.recalibrate import gain
from keras_likelihood.commands.scored_table import strangest

_MOST = 10
"""Number of examples in a table."""
_WIDEST = 1000
"""Largest number of columns for which a detector takes only seconds."""
_FAR = 6.0
"""Robust deviations above the median at which a score stands out."""
_MANY = (
    " So many mean that the classes overlap, or that the model is weak, rather "
    "than that all of these are wrong."
)
_DIAGNOSED = 5000
"""Number of examples that a diagnosis uses."""


def check_calibration(task, call) -> Part:
    """Checks the calibration before and after recalibration."""
    fitted = task.fit("auto")
    before, after = task.judge(None), task.judge(fitted)
    chance = _gap_by_chance(task)
    curves = {"before": task.curve(None), "after": task.curve(fitted)}
    has_promise = bool(curves["before"])
    gap = before[task.gap]
    good = has_promise and gap <= chance
    belief = task.belief(None)
    if good:
        verdict = "good"
        summary = f"The model is calibrated, as far as can be told. {belief}"
    elif has_promise:
        verdict = "bad"
        summary = (
            f"The model is not calibrated. {belief} {gain(task, before, after)}"
        )
    else:
        verdict = "look"
        summary = gain(task, before, after)
    rows = {"before": before, "after": after}
    body = (
        f"<p>A perfectly calibrated model would have {task.gap} below "
        f"{chance:.4f} on so many examples, in 95 of 100 cases. Judged on "
        f"{escape(call.judged)}. Recalibration: "
        f"{escape(task.chosen(fitted))}.</p>"
        + html_table(
            ["", *task.scores],
            [
                [name, *(_number(scores[k]) for k in task.scores)]
                for name, scores in rows.items()
            ],
        )
        + pictures.reliability(curves, task.expected, task.observed)
    )
    test = f" --test {call.test}" if call.test else ""
    return Part(
        "Calibration",
        verdict,
        summary,
        body,
        "recalibrate the model",
        None
        if good
        else f"keras-likelihood recalibrate {call.model} --data {call.data}"
        f"{test} --output calibrated.keras",
        {"before": before, "after": after, "by_chance": chance},
        fitted,
    )


def _gap_by_chance(task, draws: int = 100):
    """95 of 100 calibrated models have a gap below this."""
    from keras_likelihood.metrics import functions

    random = np.random.default_rng(0)
    if task.name == "regression":
        n = len(task.judged_on["y"])
        gaps = [
            functions.calibration_error(random.random(n)) for _ in range(draws)
        ]
    else:
        _, belief = functions.top_class(
            task.judged_on["y"], task.probabilities(None)
        )
        gaps = [
            functions.binned_error(random.random(len(belief)) < belief, belief)
            for _ in range(draws)
        ]
    return float(np.quantile(gaps, 0.95))


def check_labels(model, data, task, call) -> Part:
    """Finds doubtful labels or targets."""
    from keras_likelihood.auditing.audit import audit
    from keras_likelihood.auditing.shown_inputs import show_inputs

    what = "labels" if task.name == "classification" else "targets"
    classes = task.name == "classification"
    try:
        report = audit(
            model,
            data["x"],
            data["y"],
            None,
            task=task.name,
            from_logits=call.from_logits if classes else None,
        )
    except ValueError as error:
        return Part(f"Doubtful {what}", "unknown", str(error))
    n, issues = len(report.scores), report.num_issues
    worst = worst_examples(report, most=_MOST)
    inputs = show_inputs(data["x"], None)
    rows = [
        [pictures.seen(inputs, row["example"]), *map(shown, row.values())]
        for row in worst
    ]
    kind = "The worst suspects" if issues else "The highest scores"
    return Part(
        f"Doubtful {what}",
        "look" if issues else "good",
        f"{issues:,} of {n:,} {what} are suspected ({issues / n:.1%})."
        f"{_MANY if issues > 0.2 * n else ''}"
        if issues
        else f"None of the {n:,} {what} is suspected.",
        f"<p>{escape(report.rule)}</p><h3>{kind}</h3>"
        + html_table(["input", *worst[0]], rows, raw=1),
        f"look at the {what} on the page of an audit, and correct them",
        f"keras-likelihood audit {call.model} --data {call.data} "
        "--output audit.html",
        {"suspected": issues, "examples": n, "worst": worst},
    )


def check_inputs(x, rows, task, call, on_round) -> Part:
    """Finds strange inputs.

    Args:
        x: inputs of all examples.
        rows: numbers of the rows that the task is fitted to.
        task: a task, which may have features.
        call: files of the checkup.
        on_round: function of the finished rounds of training and of all
            rounds.
    """
    table, numbers, names, source = _table_of(x, rows, task)
    title = "Strange inputs"
    if table is None:
        return Part(
            title,
            "unknown",
            "There is no detector for such inputs: they are not a table, and "
            "the model has no features of them.",
        )
    if not (np.ptp(table, axis=0) > 0).any():
        return Part(title, "unknown", "All inputs are the same.")
    detector = fit_detector(table, on_round, random_state=0)
    scores = detector.decision_scores_
    middle = np.median(scores)
    spread = 1.4826 * np.median(np.abs(scores - middle))
    far = scores > middle + _FAR * max(spread, 1e-9)
    found = strangest(detector, table, names, _MOST)
    for row in found:
        row["row"] = int(numbers[row["row"]])
    cells = [
        [
            str(row["row"]),
            f"{row['score']:.3f}",
            describe_columns(row["columns"]),
        ]
        for row in found
    ]
    from keras_likelihood.auditing.histogram import draw_histogram

    count = int(far.sum())
    is_table = source == "columns"
    return Part(
        title,
        "look" if count else "good",
        f"{count:,} of {len(table):,} inputs score far above the others."
        if count
        else f"No input among {len(table):,} stands out.",
        f"<p>The detector looks at the {source}. An input stands out if its "
        f"score is more than {_FAR:.0f} robust deviations above the "
        "median.</p><figure>"
        + draw_histogram(scores, far, "score of the detector")
        + "</figure><h3>The strangest inputs</h3>"
        + html_table(
            ["example", "score", f"{source} that make it strange"], cells
        ),
        "look at the strange inputs",
        f"keras-likelihood detect {call.data} --save detector.zip"
        if is_table
        else "kl.outliers.PCAScale().fit(features).decision_scores_",
        {"far": count, "examples": len(table), "strangest": found},
    )


def _table_of(x, rows, task):
    """A table for a detector, the example of each row, names and source."""
    is_table = x.ndim == 2 and x.dtype.kind in "biuf"
    if is_table and x.shape[1] <= _WIDEST:
        names = [f"column {i}" for i in range(x.shape[1])]
        return x, np.arange(len(x)), names, "columns"
    parts = [(rows, task.fitted_to.get("features"))]
    if len(rows) < len(x):
        others = np.setdiff1d(np.arange(len(x)), rows)
        parts.append((others, task.judged_on.get("features")))
    if any(features is None for _, features in parts):
        return None, None, None, None
    table = np.concatenate([f.reshape(len(f), -1) for _, f in parts])
    if table.shape[1] > _WIDEST:
        return None, None, None, None
    names = [f"feature {i}" for i in range(table.shape[1])]
    numbers = np.concatenate([at for at, _ in parts])
    return table, numbers, names, "features of the model"


def check_training(model, data, call) -> Part:
    """What `diagnose` finds."""
    from keras_likelihood.diagnosis import diagnose

    title = "Diagnosis of the training"
    rows = slice(_DIAGNOSED)
    try:
        found = diagnose(model, data["x"][rows], data["y"][rows])
    except ValueError as error:
        if "likelihood loss" not in str(error):
            return Part(title, "unknown", str(error))
        return Part(
            title,
            "unknown",
            "The model was not trained with a likelihood of this package, so "
            "there are no likelihood parameters to check.",
        )
    if not found:
        return Part(title, "good", "Nothing suspicious was found.")
    items = "".join(
        f"<li><strong>{escape(f.message)}</strong> {escape(f.remedy)} "
        f"<small>({escape(evidence(f))})</small></li>"
        for f in found
    )
    return Part(
        title,
        "bad",
        f"{len(found)} finding(s): {', '.join(found.names)}.",
        f"<ul>{items}</ul>",
        "follow the advice of the diagnosis",
        "print(kl.diagnose(model, x, y))",
        {"findings": found.names},
    )


def evidence(finding) -> str:
    """The numbers that a finding is based on."""
    return ", ".join(
        f"{name}={shown(value)}" for name, value in finding.evidence.items()
    )


def _number(value):
    return "none" if np.isnan(value) else f"{value:.4f}"
