"""Writes the page of an audit."""

import collections
import os
from typing import Any

import numpy as np

from keras_likelihood.auditing.decisions import mark_of
from keras_likelihood.auditing.report import AuditReport
from keras_likelihood.backend.files import Path
from keras_likelihood.backend.types import Array
from keras_likelihood.pages.charts import histogram
from keras_likelihood.pages.examples import (
    SHOWN_FEATURES,
    Unseen,
    decimals,
    plain,
)
from keras_likelihood.pages.page import write_page

MOST_SUSPECTS = 10_000
"""Largest number of suspected examples on a page."""
MOST_CLASSES = 20
_DIGITS = {"p(given)": 3, "p(predicted)": 3, "quality": 3}
_DIGITS |= {"tail probability": 4, "residual / scale": 2}
_SCRIPTS = [
    f"audit.{name}js"
    for name in ("data.", "decisions.", "examples.", "large.", "keys.", "")
]
APPLY = (
    "This line of Python corrects the labels. `keep` is False for wrong "
    "labels without a replacement:",
    'y, keep = kl.auditing.apply(y, "decisions.csv")',
)
"""How to apply the decisions: a sentence and a line of code."""


def write_audit(
    report: AuditReport,
    shown: Unseen,
    output: Path,
    top: int,
    title: str,
    y: Any = None,
    apply: tuple[str, str] = APPLY,
) -> str:
    """Writes the page; `y` is needed for targets with several units."""
    issues, names = report.label_issues, report.label_names
    n, count = len(report.scores), report.num_issues
    if y is None or names:
        y = issues["given_label"]
    mark = mark_of(y, len(names) if names else None)
    what = "label errors" if names else "bad targets"
    suspected = issues["is_label_issue"]
    # Pairs of given and predicted label, most suspects first.
    labels = issues["given_label"], issues["predicted_label"]
    both = zip(*(v[suspected].tolist() for v in labels), strict=True)
    pairs = collections.Counter(sorted(both)).most_common() if names else []
    used: collections.Counter[int] = collections.Counter()
    for pair, number in pairs:
        used.update(dict.fromkeys(pair, number))
    confused = sorted(label for label, _ in used.most_common(MOST_CLASSES))
    write_page(
        output,
        "audit.html",
        title,
        scripts=_SCRIPTS,
        facts={
            "Examples": f"{n:,}",
            f"Suspected {what}": f"{count:,} ({count / n:.1%})",
            "Median score": f"{np.median(report.scores):.3g}",
            "Highest score": f"{report.scores.max():.3g}",
        },
        report=report,
        what=what,
        names=names,
        pairs=pairs,
        confused=confused,
        is_long=any(len(names[label]) > 3 for label in confused if names),
        histogram=histogram(report.scores, suspected, report.score_name),
        apply_words=apply[0],
        apply_line=apply[1],
        data={
            **_page_data(report, shown, top),
            "audit": mark,
            "one_target": np.size(y) == len(y),
        },
    )
    return os.fspath(output)


def _page_data(report: AuditReport, shown: Unseen, top: int) -> dict[str, Any]:
    """The data for the page's script."""
    ranked, issues = report.ranked(), report.label_issues
    sections = {
        "suspected": report.suspects()[:MOST_SUSPECTS],
        "highest": ranked[:top],
        "lowest": ranked[::-1][:top],
    }
    listed = np.unique(np.concatenate(list(sections.values())))
    place = {int(index): at for at, index in enumerate(listed)}
    columns = _columns(report)
    shown.make_room(listed)
    n = len(report.scores)
    return {
        "task": report.task,
        "labels": report.label_names,
        "features": shown.features,
        "shown_features": SHOWN_FEATURES,
        "columns": [
            {"name": name, "kind": kind, "digits": digits}
            for name, (kind, digits, _) in columns.items()
        ],
        "rows": [
            {
                "index": int(index),
                "suspected": bool(issues["is_label_issue"][index]),
                "quality": plain(issues["label_quality"][index]),
                "values": [
                    int(v[index]) if kind == "label" else plain(v[index])
                    for kind, _, v in columns.values()
                ],
                **shown.describe(int(index)),
            }
            for index in listed
        ],
        "sections": {
            name: [place[int(i)] for i in indices]
            for name, indices in sections.items()
        },
        "totals": {"suspected": report.num_issues, "highest": n, "lowest": n},
    }


def _columns(report: AuditReport) -> dict[str, tuple[str, int, Array]]:
    """Kind, digits and values of each column, by name."""
    issues, names = report.label_issues, ("target", "prediction")
    kind = "number"
    if report.task == "classification":
        names, kind = ("given", "predicted"), "label"
    # The summary has the full name. A column has room for one word.
    score = "NLL" if "NLL" in report.score_name else report.score_name
    columns = {
        names[0]: issues["given_label"],
        names[1]: issues["predicted_label"],
        score: report.scores,
        **report.columns,
    }
    if report.score_name.startswith("learned"):
        columns["quality"] = issues["label_quality"]
    kinds = dict.fromkeys(columns, "number") | dict.fromkeys(names, kind)
    return {
        name: (kinds[name], _DIGITS.get(name, decimals(values)), values)
        for name, values in columns.items()
    }
