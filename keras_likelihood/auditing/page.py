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
from keras_likelihood.pages.examples import Unseen, decimals, plain
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
    if y is None or names:
        y = issues["given_label"]
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
    n, count = len(report.scores), report.num_issues
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
            "audit": mark_of(y, len(names) if names else None),
            "one_target": np.size(y) == len(y),
            **_page_data(report, shown, top),
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
    shown.make_room(listed)
    columns, n = _columns(report), len(report.scores)
    rows = [
        {
            "index": index,
            "suspected": bool(issues["is_label_issue"][index]),
            "quality": plain(issues["label_quality"][index]),
            "values": [
                int(v[index]) if kind == "label" else plain(v[index])
                for _, kind, _, v in columns
            ],
            **shown.describe(index),
        }
        for index in listed.tolist()
    ]
    names = ("name", "kind", "digits")
    return {
        "task": report.task,
        "labels": report.label_names,
        "features": shown.features,
        "columns": [dict(zip(names, c, strict=False)) for c in columns],
        "rows": rows,
        "sections": {
            name: np.searchsorted(listed, indices).tolist()
            for name, indices in sections.items()
        },
        "totals": {"suspected": report.num_issues, "highest": n, "lowest": n},
    }


def _columns(report: AuditReport) -> list[tuple[str, str, int, Array]]:
    """Name, kind, digits and values of each column."""
    issues, names, kind = report.label_issues, ("given", "predicted"), "label"
    if report.task == "regression":
        names, kind = ("target", "prediction"), "number"
    # The summary has the full name. A column has room for one word.
    score = "NLL" if "NLL" in report.score_name else report.score_name
    numbers = {score: report.scores, **report.columns}
    if report.score_name.startswith("learned"):
        numbers["quality"] = issues["label_quality"]
    labels = issues["given_label"], issues["predicted_label"]
    columns = [(*pair, kind) for pair in zip(names, labels, strict=True)]
    columns += [(*pair, "number") for pair in numbers.items()]
    return [
        (name, kind, _DIGITS.get(name, decimals(values)), values)
        for name, values, kind in columns
    ]
