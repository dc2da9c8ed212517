"""The words at the head of the page."""

import html

import numpy as np


def summarize(report, label_names) -> str:
    """The summary of a report as HTML; every name in it is escaped.

    Args:
        report: an `AuditReport`.
        label_names: names of the classes, or `None` for regression.
    """
    n, issues = len(report.scores), report.num_issues
    what = "label errors" if label_names else "bad targets"
    share = f"{100 * issues / n:.1f}\u2009%"
    facts = [
        ("Examples", f"{n:,}"),
        (f"Suspected {what}", f"{issues:,} <small>{share}</small>"),
        ("Median score", f"{np.median(report.scores):.3g}"),
        ("Highest score", f"{report.scores.max():.3g}"),
    ]
    cells = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts
    )
    parts = [
        f'<dl class="facts">{cells}</dl>',
        f"<p><strong>Score: {html.escape(report.score_name)}.</strong> "
        f"{html.escape(report.score_meaning)}</p>",
        f"<p><strong>Suspected {what}.</strong> {html.escape(report.rule)}</p>",
    ]
    if label_names:
        parts.append(_confusions(report.label_issues, label_names))
    return "".join(parts)


def _confusions(issues, names, most=6):
    """The pairs of classes that suspected labels confuse most often."""
    suspected = issues["is_label_issue"]
    pairs, counts = np.unique(
        np.stack(
            [
                issues["given_label"][suspected],
                issues["predicted_label"][suspected],
            ],
            axis=1,
        ),
        axis=0,
        return_counts=True,
    )
    links = []
    for at in np.argsort(-counts, kind="stable")[:most]:
        given, predicted = (int(v) for v in pairs[at])
        words = f"{html.escape(names[given])} → {html.escape(names[predicted])}"
        links.append(
            f'<a href="#label={given}&amp;predicted={predicted}'
            f'&amp;suspected=1">{words} <b>× {counts[at]:,}</b></a>'
        )
    if not links:
        return ""
    return (
        '<p class="pairs"><span>Most often, given → predicted:</span> '
        + " ".join(links)
        + "</p>"
    )
