"""Which classes suspected labels confuse, as a table of counts."""

import html

import numpy as np

MOST_CLASSES = 20
LEVELS = 6
"""Shades of a cell, named `heat-1` to `heat-6` in the page's style."""


def draw_heat_map(issues, names) -> str:
    """A table of given against predicted label; each count filters the page.

    Args:
        issues: `label_issues` of a report.
        names: of the classes. Names are escaped.

    Returns:
        HTML, or "" if no label is suspected.
    """
    suspected = issues["is_label_issue"]
    given = issues["given_label"][suspected]
    predicted = issues["predicted_label"][suspected]
    if not len(given):
        return ""
    shown = _classes(given, predicted, len(names))
    place = np.full(len(names), -1)
    place[shown] = np.arange(len(shown))
    both = (place[given] >= 0) & (place[predicted] >= 0)
    counts = np.zeros((len(shown), len(shown)), int)
    np.add.at(counts, (place[given[both]], place[predicted[both]]), 1)
    head = "".join(
        f'<th scope="col"><span>{html.escape(names[j])}</span></th>'
        for j in shown
    )
    rows = "".join(
        f'<tr><th scope="row">{html.escape(names[i])}</th>{cells}</tr>'
        for i, cells in zip(shown, _rows(counts, shown, names), strict=True)
    )
    note = (
        f" The {len(shown)} classes with the most suspected labels of "
        f"{len(names)} are shown."
        if len(shown) < len(names)
        else ""
    )
    long = " long" if max(len(names[j]) for j in shown) > 3 else ""
    return (
        "<section><h2>Given against predicted label</h2>"
        '<p class="note">Rows are given labels, columns are predicted ones. '
        "A number counts suspected labels; choose one to see them."
        f'{note}</p><div class="scroll heat{long}" tabindex="0" role="region" '
        'aria-label="Suspected labels by given and predicted class">'
        f"<table><thead><tr><td></td>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _classes(given, predicted, count):
    """The classes of most suspected labels, in their order."""
    used = np.bincount(given, minlength=count)
    used += np.bincount(predicted, minlength=count)
    most = np.argsort(-used, kind="stable")[:MOST_CLASSES]
    return np.sort(most[used[most] > 0])


def _rows(counts, shown, names):
    largest = counts.max()
    for i, row in zip(shown, counts, strict=True):
        cells = []
        for j, count in zip(shown, row, strict=True):
            if not count:
                cells.append("<td></td>")
                continue
            level = -(-LEVELS * int(count) // int(largest))
            told = html.escape(
                f"{names[i]} \u2192 {names[j]}: {count}", quote=True
            )
            cells.append(
                f'<td class="heat-{level}"><a title="{told}" '
                f'aria-label="{told}" href="#label={i}&amp;predicted={j}'
                f'&amp;suspected=1">{count:,}</a></td>'
            )
        yield "".join(cells)
