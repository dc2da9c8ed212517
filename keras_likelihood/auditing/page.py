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
from keras_likelihood.auditing.decisions import mark_of
from keras_likelihood.auditing.heat_map import draw_heat_map
from keras_likelihood.auditing.histogram import draw_histogram
from keras_likelihood.auditing.rows import SHOWN_FEATURES
from keras_likelihood.auditing.summary import summarize
from keras_likelihood.backend.whole_files import replacing

_DIGITS = {
    "p(given)": 3,
    "p(predicted)": 3,
    "tail probability": 4,
    "residual / scale": 2,
    "quality": 3,
}

_SCRIPTS = (
    "page.data.js",
    "page.decisions.js",
    "page.examples.js",
    "page.large.js",
    "page.keys.js",
    "page.js",
)
"""Parts of the page's script, which share one scope."""


def write_page(
    report, shown, output, label_names, top, title, targets=None
) -> str:
    """Writes the page of a report, and its folder; returns its path.

    Args:
        report: an `AuditReport`.
        shown: how inputs are shown, see `show_inputs`.
        output: path to write.
        label_names: names of the classes, or `None` for regression.
        top: most examples a section holds.
        title: of the page.
        targets: of a regression, `(n, ...)`. Defaults to those that the
            report shows.
    """
    issues = report.label_issues
    if targets is None:
        targets = issues["given_label"]
    classes = label_names and len(label_names)
    data = page_data(report, shown, label_names, top)
    data["audit"] = mark_of(targets, classes)
    data["one_target"] = np.size(targets) == len(targets)
    data["key"] = _key(data["audit"], shown)
    style, script = _resource("page.css"), page_script()
    suspected = issues["is_label_issue"]
    page = fill(
        _resource("page.html"),
        {
            "title": html.escape(str(title)),
            "style": style,
            "script": script,
            "style_hash": content_hash(style),
            "script_hash": content_hash(script),
            "summary": summarize(report, label_names),
            "histogram": draw_histogram(
                report.scores, suspected, report.score_name
            ),
            "heat_map": draw_heat_map(issues, label_names)
            if label_names
            else "",
            "data": embed_json(data),
        },
    )
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    with replacing(output) as temporary:
        # Names of files may hold what no encoding knows.
        temporary.write_text(page, encoding="utf-8", errors="replace")
    return os.fspath(output)


def page_script() -> str:
    """The page's own script, in a scope of its own."""
    parts = "\n".join(_resource(name) for name in _SCRIPTS)
    return f'"use strict";\n{{\n{parts}}}\n'


def _key(mark, shown):
    """By what the browser knows decisions of these data again.

    Labels alone may be those of another data set, so that some of the inputs
    count too. What a network says of them does not: decisions outlive it.
    """
    x = getattr(shown, "x", np.zeros(0))
    some = x[:: -(-max(len(x), 1) // 1000)]
    content = (
        repr(some.tolist()).encode("utf-8", errors="replace")
        if some.dtype.hasobject
        else np.ascontiguousarray(some).tobytes()
    )
    digest = hashlib.sha256(mark.encode("ascii") + content)
    return digest.hexdigest()[:24]


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
    if hasattr(shown, "make_room"):
        shown.make_room(held)
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
        "shown_features": SHOWN_FEATURES,
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
