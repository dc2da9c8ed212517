"""Where a recalibrated model is uncertain, for the page of a checkup."""

import numpy as np

from keras_likelihood.commands.part import Part
from keras_likelihood.commands.pictures import escape, html_table

_MOST = 10
"""Number of rows in a table."""
_UNSURE = 0.6
"""If the probability of an answer is lower, the model counts as unsure."""


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
            "checked here.",
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
    unsure = float(np.mean(belief < _UNSURE))
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
        f"answer less than {_UNSURE:.0%}. It is least certain of class "
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


def _rows_are_of(call):
    return f"<p>Examples are rows of {escape(call.judged)}.</p>"
