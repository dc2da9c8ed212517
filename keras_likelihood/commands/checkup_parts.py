"""What a checkup looks at: one function for each part of its page."""

import dataclasses
from typing import Any

import numpy as np

from keras_likelihood.commands import pictures
from keras_likelihood.commands.audit import shown, worst_examples
from keras_likelihood.commands.detect import (
    describe_columns,
    fit_detector,
    strangest,
)
from keras_likelihood.commands.pictures import html_table
from keras_likelihood.commands.recalibrate import gain

_MOST = 10
"""Examples in a table."""
_WIDEST = 1000
"""Columns of a table that a detector takes in seconds."""
_FAR = 6.0
"""Robust deviations above the median at which a score stands out."""
_DIAGNOSED = 5000
"""Examples that a diagnosis looks at."""


@dataclasses.dataclass
class Part:
    """One part of a checkup.

    Args:
        title: of the part.
        verdict: "good", "look", "bad" or "unknown".
        summary: what was found, in a sentence or two.
        body: HTML of figures and tables.
        advice: what to do, as the continuation of "First ...".
        command: the command or line of Python that does it, or `None`.
        numbers: what was measured, by name.
        recalibrator: that was fitted, or `None`.
    """

    title: str
    verdict: str
    summary: str
    body: str = ""
    advice: str = ""
    command: str | None = None
    numbers: dict = dataclasses.field(default_factory=dict)
    recalibrator: Any = None

    def as_dict(self) -> dict:
        """The part as JSON holds it."""
        names = ("title", "verdict", "summary", "command", "numbers")
        return {name: getattr(self, name) for name in names}


def check_calibration(task, call) -> Part:
    """Whether promises are kept, before and after recalibration."""
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
        f"{html_text(call.judged)}. Recalibration: "
        f"{html_text(task.chosen(fitted))}.</p>"
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
    """The gap that a calibrated model stays below in 95 of 100 cases."""
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
    """Which labels or targets are doubtful."""
    from keras_likelihood.auditing.audit import audit
    from keras_likelihood.auditing.shown_inputs import show_inputs

    classes = task.name == "classification"
    what = "labels" if classes else "targets"
    logits = None
    if classes and not task.from_logits:
        logits = False
    report = audit(
        model, data["x"], data["y"], None, task=task.name, from_logits=logits
    )
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
        if issues
        else f"None of the {n:,} {what} is suspected.",
        f"<p>{html_text(report.rule)}</p><h3>{kind}</h3>"
        + html_table(["input", *worst[0]], rows, raw=1),
        f"look at the {what} on the page of an audit, and correct them",
        f"keras-likelihood audit {call.model} --data {call.data} "
        "--output audit.html",
        {"suspected": issues, "examples": n, "worst": worst},
    )


def check_inputs(x, rows, task, call, on_round) -> Part:
    """Which inputs are strange.

    Args:
        x: inputs of all examples.
        rows: numbers of those that the task is fitted to.
        task: a task, which may have features.
        call: files of the checkup.
        on_round: called with the rounds of training done, and of all.
    """
    table, numbers, names, source = _table_of(x, rows, task)
    title = "Strange inputs"
    if table is None:
        return Part(
            title,
            "unknown",
            "There is no detector for inputs of this kind: they are neither "
            "a table, nor does the model have features of them.",
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
    """Numbers for a detector, the example of each row, names, and source."""
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


def check_uncertainty(task, recalibrator, judged, call) -> Part:
    """Where the recalibrated model is uncertain."""
    if task.name == "regression":
        return _uncertain_numbers(task, recalibrator, judged, call)
    p = task.probabilities(recalibrator)
    p = p.reshape(len(p), -1)
    if np.ndim(task.judged_on["y"]) > 1:
        return Part(
            "Uncertainty",
            "unknown",
            "Outputs with more than one label for each example are not "
            "looked at here.",
        )
    if p.shape[1] == 1:
        p = np.concatenate([1 - p, p], axis=1)
    y, answer, belief = task.judged_on["y"], p.argmax(axis=1), p.max(axis=1)
    classes = []
    for c in np.unique(answer):
        of_class = answer == c
        classes.append(
            (
                int(c),
                int(of_class.sum()),
                float(belief[of_class].mean()),
                float(np.mean(y[of_class] == c)),
            )
        )
    classes.sort(key=lambda row: row[2])
    second = np.argsort(p, axis=1)[:, -2]
    order = np.argsort(belief, kind="stable")[:_MOST]
    unsure = float(np.mean(belief < 0.6))
    body = (
        "<h3>The classes, the least certain first</h3>"
        + html_table(
            ["predicted class", "examples", "mean probability", "right"],
            [
                [str(c), f"{n:,}", f"{b:.1%}", f"{r:.1%}"]
                for c, n, b, r in classes[:_MOST]
            ],
        )
        + "<h3>The least certain examples</h3>"
        + html_table(
            ["example", "given", "predicted", "probability", "second"],
            [
                [
                    str(judged[i]),
                    str(y[i]),
                    str(answer[i]),
                    f"{belief[i]:.1%}",
                    f"{second[i]} ({p[i, second[i]]:.1%})",
                ]
                for i in order
            ],
        )
    )
    return Part(
        "Uncertainty",
        "look" if unsure > 0.1 else "good",
        f"For {unsure:.1%} of the examples the recalibrated model gives its "
        f"answer less than 60 %. It is least certain of class "
        f"{classes[0][0]} ({classes[0][2]:.1%} on average).",
        _rows_are_of(call) + body,
        "let the model answer with sets of classes where it is unsure",
        f"kl.recalibration.Conformal().fit({call.model!r}, x, y).model",
        {"unsure": unsure, "examples": judged[order]},
    )


def _uncertain_numbers(task, recalibrator, judged, call):
    import keras

    distribution = task.distribution(recalibrator)
    low, high = map(keras.ops.convert_to_numpy, distribution.interval(0.9))
    width = np.ravel(high - low)
    prediction = np.ravel(task.judged_on["prediction"])
    y = np.ravel(task.judged_on["y"])
    fifths = np.array_split(np.argsort(prediction, kind="stable"), 5)
    order = np.argsort(-width, kind="stable")[:_MOST]
    body = (
        "<h3>Five groups of equal size, by prediction</h3>"
        + html_table(
            ["prediction from", "to", "mean width", "root mean square error"],
            [
                [
                    f"{prediction[rows[0]]:.4g}",
                    f"{prediction[rows[-1]]:.4g}",
                    f"{width[rows].mean():.4g}",
                    f"{np.sqrt(np.mean((y - prediction)[rows] ** 2)):.4g}",
                ]
                for rows in fifths
            ],
        )
        + "<h3>The widest intervals</h3>"
        + html_table(
            ["example", "target", "prediction", "from", "to"],
            [
                [
                    str(judged[i]),
                    f"{y[i]:.4g}",
                    f"{prediction[i]:.4g}",
                    f"{np.ravel(low)[i]:.4g}",
                    f"{np.ravel(high)[i]:.4g}",
                ]
                for i in order
            ],
        )
    )
    narrow, wide = np.quantile(width, [0.05, 0.95])
    same = wide < 1.05 * narrow
    return Part(
        "Uncertainty",
        "good",
        f"90 % intervals of the recalibrated model have the width "
        f"{np.median(width):.4g}, the same for all inputs."
        if same
        else f"The width of 90 % intervals is {np.median(width):.4g} for the "
        f"typical input, {narrow:.4g} for the surest and {wide:.4g} for the "
        "least sure 5 %.",
        _rows_are_of(call) + body,
        "ask for intervals with a guarantee",
        f"kl.recalibration.regression.Conformal().fit({call.model!r}, x, y)"
        ".model",
        {"median_width": float(np.median(width)), "examples": judged[order]},
    )


def check_training(model, data, call) -> Part:
    """What `diagnose` finds."""
    from keras_likelihood.diagnosis import diagnose

    title = "Diagnosis of the training"
    rows = slice(_DIAGNOSED)
    try:
        found = diagnose(model, data["x"][rows], data["y"][rows])
    except ValueError as error:
        if "likelihood loss" not in str(error):
            raise
        return Part(
            title,
            "unknown",
            "The model was not trained with a likelihood of this package, so "
            "that there are no likelihood parameters to look at.",
        )
    if not found:
        return Part(title, "good", "Nothing suspicious was found.")
    items = "".join(
        f"<li><strong>{html_text(f.message)}</strong> {html_text(f.remedy)} "
        f"<small>({html_text(evidence(f))})</small></li>"
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
    """The numbers that a finding rests on."""
    return ", ".join(
        f"{name}={shown(value)}" for name, value in finding.evidence.items()
    )


def html_text(text) -> str:
    """Text that HTML shows as it is."""
    return pictures.escape(text)


def _rows_are_of(call):
    return f"<p>Examples are rows of {html_text(call.judged)}.</p>"


def _number(value):
    return "none" if np.isnan(value) else f"{value:.4f}"
