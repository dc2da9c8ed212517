"""Tables and figures of a page, as HTML and inline SVG."""

import html
import re

_SIDE, _LEFT, _BOTTOM, _TOP = 300, 56, 46, 12
_NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?( ?%)?|none")


def escape(text) -> str:
    """Text with escaped HTML characters."""
    return html.escape(str(text))


def html_table(columns, rows, raw: int = 0) -> str:
    """A table whose cells are escaped.

    Args:
        columns: names of the columns.
        rows: lists of texts.
        raw: number of first columns that already are HTML. Defaults to 0.
    """
    if raw and not any(row[0] for row in rows):
        columns, rows, raw = columns[1:], [row[1:] for row in rows], 0
    head = "".join(
        f'<th scope="col"{_number_class(row[at] for row in rows)}>'
        f"{escape(name)}</th>"
        for at, name in enumerate(columns)
    )
    body = "".join(
        "<tr>"
        + "".join(_cell(value, is_raw=at < raw) for at, value in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(value, is_raw):
    if is_raw:
        return f"<td>{value}</td>"
    return f"<td{_number_class([value])}>{escape(value)}</td>"


def _number_class(values):
    is_number = all(_NUMBER.fullmatch(value) for value in values)
    return ' class="number"' if is_number else ""


def seen(inputs, index: int) -> str:
    """An example as HTML: a picture, or the beginning of a text.

    Args:
        inputs: from `show_inputs`.
        index: the index of the example.
    """
    told = inputs.describe(index)
    if "image" in told:
        return f'<img class="tiny" alt="example {index}" src="{told["image"]}">'
    if "text" in told:
        text = told["text"]
        return escape(text[:200] + ("\u2026" if len(text) > 200 else ""))
    return ""


def reliability(curves: dict, expected: str, observed: str) -> str:
    """A reliability diagram as inline SVG.

    Args:
        curves: lists of dicts of `expected`, `observed` and `count`, by
            name; an empty list is left out.
        expected: name of the horizontal axis.
        observed: name of the vertical axis.
    """
    right, bottom = _LEFT + _SIDE, _TOP + _SIDE
    parts = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        x, y = _place(tick, tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}"/>'
            f'<text class="tick" x="{_LEFT - 8}" y="{y + 4}" '
            f'text-anchor="end">{tick:.0%}</text>'
            f'<text class="tick" x="{x}" y="{bottom + 18}" '
            f'text-anchor="middle">{tick:.0%}</text>'
        )
    parts.append(
        f'<line class="diagonal" x1="{_LEFT}" y1="{bottom}" x2="{right}" '
        f'y2="{_TOP}"/>'
    )
    for name, curve in curves.items():
        parts.append(_curve(name, curve))
    parts.append(
        f'<text class="axis" x="{_LEFT + _SIDE / 2}" y="{bottom + 40}" '
        f'text-anchor="middle">{escape(expected)}</text>'
    )
    keys = "".join(
        f'<span class="named"><span class="key {name}"></span> {name}</span>'
        for name, curve in curves.items()
        if curve
    )
    return (
        f'<figure class="square"><svg viewBox="0 0 {right + 28} '
        f'{bottom + _BOTTOM}" role="img" aria-label="{escape(observed)} '
        f'against {escape(expected)}">{"".join(parts)}</svg><figcaption>'
        f"{keys} ({escape(observed)} against {escape(expected)}; a calibrated "
        "model is on the diagonal, larger points are more examples)"
        "</figcaption></figure>"
    )


def _place(expected, observed):
    x = _LEFT + expected * _SIDE
    return round(x, 1), round(_TOP + (1 - observed) * _SIDE, 1)


def _curve(name, curve):
    if not curve:
        return ""
    places = [_place(row["expected"], row["observed"]) for row in curve]
    line = " ".join(f"{x},{y}" for x, y in places)
    most = max(row["count"] for row in curve)
    points = "".join(
        f'<circle class="{name}" cx="{x}" cy="{y}" '
        f'r="{2.5 + 4 * (row["count"] / most) ** 0.5:.1f}"><title>'
        f"{row['name']}: {row['observed']:.1%} of {row['count']:,}"
        "</title></circle>"
        for (x, y), row in zip(places, curve, strict=True)
    )
    return f'<polyline class="{name}" points="{line}"/>{points}'
