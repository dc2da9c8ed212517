"""The audit as one self-contained HTML file."""

import base64
import hashlib
import html
import importlib.resources
import json
import os
import re

import numpy as np

from keras_likelihood.auditing.decimals import decimals
from keras_likelihood.auditing.histogram import draw_histogram
from keras_likelihood.auditing.summary import summarize
from keras_likelihood.whole_files import replacing

_DIGITS = {
    "p(given)": 3,
    "p(predicted)": 3,
    "tail probability": 4,
    "residual / scale": 2,
    "quality": 3,
}


def write_page(report, shown, output, label_names, top, title) -> str:
    """Writes the page of a report, and its folder; returns its path.

    Args:
        report: an `AuditReport`.
        shown: how inputs are shown, see `show_inputs`.
        output: path to write.
        label_names: names of the classes, or `None` for regression.
        top: most examples a section holds.
        title: of the page.
    """
    data = page_data(report, shown, label_names, top)
    suspected = report.label_issues["is_label_issue"]
    page = fill(
        _resource("page.html"),
        {
            "title": html.escape(str(title)),
            "style": _resource("page.css"),
            "script": _resource("page.js"),
            "style_hash": content_hash(_resource("page.css")),
            "script_hash": content_hash(_resource("page.js")),
            "summary": summarize(report, label_names),
            "histogram": draw_histogram(
                report.scores, suspected, report.score_name
            ),
            "data": embed_json(data),
        },
    )
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    with replacing(output) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return os.fspath(output)


def page_data(report, shown, label_names, top) -> dict:
    """What the page's script reads; arguments as in `write_page`."""
    ranked = report.ranked()
    sections = {
        "suspected": report.suspects()[:top],
        "highest": ranked[:top],
        "lowest": ranked[::-1][:top],
    }
    held = np.unique(np.concatenate(list(sections.values())))
    place = {int(index): at for at, index in enumerate(held)}
    columns = _columns(report)
    rows = [
        {
            "index": int(index),
            "suspected": bool(report.label_issues["is_label_issue"][index]),
            "quality": _plain(report.label_issues["label_quality"][index]),
            "values": [_plain(c["values"][index]) for c in columns],
            **shown.describe(int(index)),
        }
        for index in held
    ]
    return {
        "task": report.task,
        "labels": label_names,
        "features": list(shown.features),
        "columns": [
            {k: v for k, v in c.items() if k != "values"} for c in columns
        ],
        "rows": rows,
        "sections": {
            name: [place[int(i)] for i in indices]
            for name, indices in sections.items()
        },
        "totals": {
            "suspected": report.num_issues,
            "highest": len(report.scores),
            "lowest": len(report.scores),
        },
    }


def _columns(report):
    classes = report.task == "classification"
    issues = report.label_issues
    kind = "label" if classes else "number"
    first = {
        "given" if classes else "target": issues["given_label"],
        "predicted" if classes else "prediction": issues["predicted_label"],
    }
    columns = [_column(k, v, kind) for k, v in first.items()]
    # The summary says of what; a column has room for the one word.
    name = "NLL" if "NLL" in report.score_name else report.score_name
    columns.append(_column(name, report.scores, "number"))
    others = dict(report.columns)
    if report.score_name == "predicted scale":
        del others["scale"]
    if report.score_name.startswith("learned"):
        others["quality"] = issues["label_quality"]
    return columns + [_column(k, v, "number") for k, v in others.items()]


def _column(name, values, kind):
    digits = _DIGITS.get(name, decimals(values))
    return {"name": name, "kind": kind, "digits": digits, "values": values}


def _plain(value):
    value = value.item()
    return float(f"{value:.7g}") if isinstance(value, float) else value


def embed_json(data) -> str:
    """JSON that no HTML parser can leave: no `<`, `>` or `&` in it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def content_hash(text: str) -> str:
    """The source expression of a content security policy for `text`."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def fill(template: str, parts: dict) -> str:
    """Replaces each `{{name}}` once; what is put in is not looked at."""
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], template)


def _resource(name):
    files = importlib.resources.files("keras_likelihood.auditing")
    return (files / name).read_text(encoding="utf-8")
