"""The parts of a checkup, one function for each."""

import keras
import numpy as np

from keras_likelihood.commands.audit import shown, worst_examples
from keras_likelihood.commands.detect import (
    describe_columns,
    fit_detector,
)
from keras_likelihood.commands.options import shell
from keras_likelihood.commands.outputs import unused
from keras_likelihood.commands.recalibrate import gain
from keras_likelihood.commands.scored_table import strangest
from keras_likelihood.pages.charts import histogram, reliability
from keras_likelihood.pages.examples import show_inputs
from keras_likelihood.pages.page import Part, Table

_MOST = 10
"""Number of examples in a table."""
_WIDEST = 1000
"""Largest number of columns for which a detector takes only seconds."""
_FAR = 6.0
"""Robust deviations above the median at which a score stands out."""
_UNSURE = 0.6
"""If the probability of an answer is lower, the model counts as unsure."""
_DIAGNOSED = 5000
"""Number of examples that a diagnosis uses."""


def examples_table(title, columns, x, numbers, rows) -> Table:
    """A table of examples, with thumbnails or texts if there are any.

    Args:
        title: heading of the table.
        columns: names of the columns behind the number of the example.
        x: all inputs.
        numbers: which of them are in the table.
        rows: texts of the other columns, one list for each.
    """
    seen = show_inputs(x)
    cells = [seen.cell(int(number)) for number in numbers]
    has_cells = any(cells)
    return Table(
        [*["input"] * has_cells, "example", *columns],
        [
            [*[cell] * has_cells, str(number), *row]
            for cell, number, row in zip(cells, numbers, rows, strict=True)
        ],
        title,
    )


def check_calibration(task, call) -> tuple[Part, object]:
    """Checks the calibration; returns the recalibrator too."""
    fitted = task.fit("auto")
    before, after = task.judge(None), task.judge(fitted)
    chance = _gap_by_chance(task)
    curves = {"before": task.curve(None), "after": task.curve(fitted)}
    has_promise = bool(curves["before"])
    good = has_promise and before[task.gap] <= chance
    belief, gained = task.belief(None), gain(task, before, after)
    verdict, summary = "look", gained
    if good:
        verdict = "good"
        summary = f"No miscalibration can be seen. {belief}"
    elif has_promise:
        verdict = "bad"
        summary = f"The model is not calibrated. {belief} {gained}"
    scores = Table(
        ["", *task.scores],
        [
            [name, *("-" if np.isnan(v) else f"{v:.4f}" for v in row.values())]
            for name, row in (("before", before), ("after", after))
        ],
    )
    words = (
        f"With this number of examples, 95 of 100 perfectly calibrated models "
        f"have an {task.gap} below {chance:.4f}. Judged on {call.judged}. "
        f"Recalibration: {task.chosen(fitted)}."
    )
    figure = reliability(curves, task.expected, task.observed)
    output = {"output": unused("calibrated.keras")}
    part = Part(
        "Calibration",
        summary,
        [words, scores, figure],
        verdict,
        "recalibrate the model",
        None
        if good
        else call.command("recalibrate", call.model, **call.test, **output),
        {"before": before, "after": after, "by_chance": chance},
    )
    return part, fitted


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

    classes = task.name == "classification"
    what = "labels" if classes else "targets"
    title = f"Doubtful {what}"
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
        return Part(title, str(error), verdict="unknown")
    n, words = len(report.scores), [report.rule]
    if classes and "p(predicted)" in report.columns:
        words += [_keep_knowable(report)]
    issues = report.num_issues
    worst = worst_examples(report, most=_MOST)
    table = examples_table(
        "The worst suspects" if issues else "The highest scores",
        list(worst[0])[1:],
        data["x"],
        [row["example"] for row in worst],
        [list(map(shown, row.values()))[1:] for row in worst],
    )
    return Part(
        title,
        f"{issues:,} of {n:,} {what} are suspected ({issues / n:.1%})."
        if issues
        else f"None of the {n:,} {what} is suspected.",
        [*words, table],
        "look" if issues else "good",
        f"look at the {what} on the page of an audit, and correct them",
        call.command("audit", call.model, output=unused("audit.html")),
        {"suspected": issues, "examples": n, "worst": worst},
    )


def _keep_knowable(report):
    """Keeps only as many suspects as the model can know; returns words."""
    issues = report.label_issues
    agrees = issues["predicted_label"] == issues["given_label"]
    most = knowable(report.columns["p(predicted)"], agrees)
    suspects = report.suspects()
    issues["is_label_issue"][suspects[most:]] = False
    words = (
        f"The model agrees with {agrees.mean():.1%} of the labels. It "
        "contradicts a wrong label as confidently as it agrees with a right "
        "one; most contradictions that are less confident are errors of the "
        f"model. By its confidence at most {most:,} of its "
        f"{int((~agrees).sum()):,} contradictions are wrong labels"
    )
    if most < len(suspects):
        return (
            f"{words}: of {len(suspects):,} labels that the rule finds, the "
            "worst are suspected."
        )
    return f"{words}."


def knowable(confidence, agrees) -> int:
    """At most how many contradictions of a classifier are wrong labels.

    A wrong label says nothing about the input. So the classifier is as
    confident there as elsewhere, where it agrees. Let a share s of the
    agreements have a confidence of at least t, and k of the contradictions.
    Then there are about k / s wrong labels at most, for every t.

    Args:
        confidence: probability of the predicted class, `(n,)`.
        agrees: whether it is the given label, `(n,)`.
    """
    against = confidence[~agrees]
    if not agrees.any():
        return 0
    # Ties, such as 1.0 in single precision, count on both sides.
    levels = np.quantile(confidence[agrees], [0, 0.25, 0.5, 0.7, 0.8, 0.9])
    bounds = [
        np.sum(against >= level) / np.mean(confidence[agrees] >= level)
        for level in levels
    ]
    return int(min(bounds))


def check_inputs(x, rows, task, call, on_round) -> Part:
    """Finds strange inputs."""
    table, numbers, source = _table_of(x, rows, task)
    title = "Strange inputs"
    if table is None:
        return Part(
            title,
            "There is no detector for such inputs: they are not a table, and "
            "the model has no features of them.",
            verdict="unknown",
        )
    if not (np.ptp(table, axis=0) > 0).any():
        return Part(title, "All inputs are the same.", verdict="unknown")
    detector = fit_detector(table, on_round, random_state=0)
    scores = detector.decision_scores_
    middle = np.median(scores)
    spread = 1.4826 * np.median(np.abs(scores - middle))
    far = scores > middle + _FAR * max(spread, 1e-9)
    names = [f"{source} {i}" for i in range(table.shape[1])]
    found = strangest(detector, table, names, _MOST)
    for row in found:
        row["row"] = int(numbers[row["row"]])
    count, is_table = int(far.sum()), source == "column"
    return Part(
        title,
        f"{count:,} of {len(table):,} inputs score far above the others."
        if count
        else f"No input among {len(table):,} stands out.",
        [
            f"The detector looks at each {source}. An input stands out if "
            f"its score is more than {_FAR:.0f} robust deviations above the "
            "median.",
            histogram(scores, far, "score of the detector"),
            examples_table(
                "The strangest inputs",
                ["score", "what makes it strange"],
                x,
                [row["row"] for row in found],
                [
                    [f"{row['score']:.3f}", describe_columns(row["columns"])]
                    for row in found
                ],
            ),
        ],
        "look" if count else "good",
        "score all rows, and keep the detector",
        shell("detect", call.data, save=unused("detector.zip"))
        if is_table
        else None,
        {"far": count, "examples": len(table), "strangest": found},
    )


def _table_of(x, rows, task):
    """A table for a detector, the example of each row, and its source."""
    is_table = x.ndim == 2 and x.dtype.kind in "biuf"
    if is_table and x.shape[1] <= _WIDEST:
        return x, np.arange(len(x)), "column"
    parts = [(rows, task.fitted_to.get("features"))]
    if len(rows) < len(x):
        others = np.setdiff1d(np.arange(len(x)), rows)
        parts.append((others, task.judged_on.get("features")))
    if any(features is None for _, features in parts):
        return None, None, None
    table = np.concatenate([f.reshape(len(f), -1) for _, f in parts])
    if table.shape[1] > _WIDEST:
        return None, None, None
    numbers = np.concatenate([at for at, _ in parts])
    return table, numbers, "feature of the model"


def check_uncertainty(task, recalibrator, x, judged, call) -> Part:
    """Where the recalibrated model is uncertain."""
    if task.name == "regression":
        return _uncertain_numbers(task, recalibrator, x, judged, call)
    p = task.probabilities(recalibrator)
    p = p.reshape(len(p), -1)
    y = task.judged_on["y"]
    if np.ndim(y) > 1:
        return Part(
            "Uncertainty",
            "Outputs with more than one label for each example are not "
            "checked here.",
            verdict="unknown",
        )
    if p.shape[1] == 1:
        p = np.concatenate([1 - p, p], axis=1)
    answer, belief = p.argmax(axis=1), p.max(axis=1)
    classes = sorted(
        (belief[answer == c].mean(), c, np.mean(y[answer == c] == c))
        for c in np.unique(answer)
    )
    second = np.argsort(p, axis=1)[:, -2]
    order = np.argsort(belief, kind="stable")[:_MOST]
    unsure = float(np.mean(belief < _UNSURE))
    return Part(
        "Uncertainty",
        f"For {unsure:.1%} of the examples the recalibrated model gives its "
        f"answer less than {_UNSURE:.0%}. It is least certain of class "
        f"{classes[0][1]} ({classes[0][0]:.1%} on average).",
        [
            f"Examples are rows of {call.judged}.",
            Table(
                ["predicted class", "examples", "mean probability", "right"],
                [
                    [str(c), f"{np.sum(answer == c):,}", f"{b:.1%}", f"{r:.1%}"]
                    for b, c, r in classes[:_MOST]
                ],
                "The classes, the least certain first",
            ),
            examples_table(
                "The least certain examples",
                ["given", "predicted", "probability", "second"],
                x,
                judged[order],
                [
                    [
                        str(y[i]),
                        str(answer[i]),
                        f"{belief[i]:.1%}",
                        f"{second[i]} ({p[i, second[i]]:.1%})",
                    ]
                    for i in order
                ],
            ),
        ],
        "look" if unsure > 0.1 else "good",
        "let the model answer with sets of classes where it is unsure",
        call.python(
            "sets = kl.recalibration.Conformal().fit(model, data['x'], "
            "data['y']).model"
        ),
        {"unsure": unsure, "examples": judged[order]},
    )


def _uncertain_numbers(task, recalibrator, x, judged, call):
    distribution = task.distribution(recalibrator)
    low, high = (
        np.ravel(keras.ops.convert_to_numpy(end))
        for end in distribution.interval(0.9)
    )
    width = high - low
    prediction = np.ravel(task.judged_on["prediction"])
    y = np.ravel(task.judged_on["y"])
    fifths = np.array_split(np.argsort(prediction, kind="stable"), 5)
    order = np.argsort(-width, kind="stable")[:_MOST]
    narrow, wide = np.quantile(width, [0.05, 0.95])
    return Part(
        "Uncertainty",
        f"90 % intervals of the recalibrated model have the width "
        f"{np.median(width):.4g}, the same for all inputs."
        if wide < 1.05 * narrow
        else f"The width of 90 % intervals is {np.median(width):.4g} for the "
        f"typical input, {narrow:.4g} for the surest and {wide:.4g} for the "
        "least sure 5 %.",
        [
            f"Examples are rows of {call.judged}.",
            Table(
                ["prediction from", "to", "mean width", "RMSE"],
                [
                    [
                        f"{prediction[rows[0]]:.4g}",
                        f"{prediction[rows[-1]]:.4g}",
                        f"{width[rows].mean():.4g}",
                        f"{np.sqrt(np.mean((y - prediction)[rows] ** 2)):.4g}",
                    ]
                    for rows in fifths
                ],
                "Five groups of equal size, by prediction",
            ),
            examples_table(
                "The widest intervals",
                ["target", "prediction", "from", "to"],
                x,
                judged[order],
                [
                    [f"{v[i]:.4g}" for v in (y, prediction, low, high)]
                    for i in order
                ],
            ),
        ],
        "good",
        "ask for intervals with a guarantee",
        call.python(
            "sure = kl.recalibration.regression.Conformal().fit(model, "
            "data['x'], data['y']).model"
        ),
        {"median_width": float(np.median(width)), "examples": judged[order]},
    )


def check_training(model, data, call) -> Part:
    """What `diagnose` finds."""
    from keras_likelihood.diagnosis import diagnose

    title = "Diagnosis of the training"
    try:
        found = diagnose(model, data["x"][:_DIAGNOSED], data["y"][:_DIAGNOSED])
    except ValueError as error:
        words = str(error)
        if "likelihood loss" in words:
            words = (
                "The model was not trained with a likelihood of this package, "
                "so there are no likelihood parameters to check."
            )
        return Part(title, words, verdict="unknown")
    if not found:
        return Part(title, "Nothing suspicious was found.", verdict="good")
    return Part(
        title,
        f"{len(found)} finding(s): {', '.join(found.names)}.",
        [f"{f.message} {f.remedy} ({evidence(f)})" for f in found],
        "bad",
        "follow the advice of the diagnosis",
        call.python("print(kl.diagnose(model, data['x'], data['y']))"),
        {"findings": found.names},
    )


def evidence(finding) -> str:
    """The numbers that a finding is based on."""
    return ", ".join(
        f"{name}={shown(value)}" for name, value in finding.evidence.items()
    )
