"""A histogram as inline SVG."""

import html
import math

import numpy as np

WIDTH, HEIGHT = 640, 250
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 12, 54


def draw_histogram(scores, suspected, name: str, bins: int = 40) -> str:
    """Draws the scores, with the suspected examples in another colour.

    Args:
        scores: `(n,)`.
        suspected: bool `(n,)`.
        name: of the score.
        bins: number of bars. Defaults to 40.

    Returns:
        An `<svg>` element that styles itself by the classes of the page.
    """
    edges = _edges(scores, bins)
    counts, _ = np.histogram(scores, edges)
    issues, _ = np.histogram(scores[suspected], edges)
    height_of, y_ticks = _heights(int(counts.max()))

    def x(value):
        share = (value - edges[0]) / (edges[-1] - edges[0])
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(count):
        return HEIGHT - BOTTOM - height_of(count) * (HEIGHT - TOP - BOTTOM)

    parts = [_grid(t, y(t)) for t in y_ticks]
    for low, high, count, issue in zip(
        edges, edges[1:], counts, issues, strict=False
    ):
        told = f"{low:.3g} to {high:.3g}: {count} examples"
        parts.append(_bar("bar", x(low), x(high), y(0), y(count), told))
        told = f"{told}, {issue} suspected"
        parts.append(_bar("bar issue", x(low), x(high), y(0), y(issue), told))
    for t in ticks(edges[0], edges[-1], 5):
        parts.append(_text("tick", x(t), HEIGHT - BOTTOM + 20, number(t)))
    label = html.escape(name)
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_text("axis", middle, HEIGHT - 6, label))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-labelledby="histogram-title histogram-told">'
        f'<title id="histogram-title">{label}</title>'
        f'<desc id="histogram-told">{_told(scores, suspected)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _heights(most):
    """`(height of a count, counts on the axis)`, where `most` has height 1.

    Hundreds of good examples share one bar, beside which the few suspected
    ones would not be seen. Heights are logarithms then.
    """
    if most < 100:
        marks = [t for t in ticks(0, most, 4) if t == int(t)]
        return (lambda count: count / most), marks
    marks = [0, *(10**k for k in range(len(str(most))))]
    return (lambda count: math.log1p(count) / math.log1p(most)), marks


def _told(scores, suspected):
    return (
        f"Histogram of {len(scores)} values from {scores.min():.3g} to "
        f"{scores.max():.3g}, median {np.median(scores):.3g}; "
        f"{int(suspected.sum())} examples are suspected."
    )


def _text(css, x, y, text):
    return (
        f'<text class="{css}" x="{x:.1f}" y="{y}" text-anchor="middle">'
        f"{text}</text>"
    )


def _edges(scores, bins):
    low, high = float(scores.min()), float(scores.max())
    if not high - low > 1e-9 * max(abs(low), abs(high)):
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1)


def _grid(tick, at):
    return (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" '
        f'y1="{at:.1f}" y2="{at:.1f}"/><text class="tick" x="{LEFT - 8}" '
        f'y="{at + 4:.1f}" text-anchor="end">{number(tick)}</text>'
    )


def _bar(css, left, right, bottom, top, told):
    if top == bottom:
        return ""
    # A single example among thousands must still be seen.
    height = max(bottom - top, 1.5)
    return (
        f'<rect class="{css}" x="{left + 0.5:.2f}" '
        f'width="{right - left - 1:.2f}" '
        f'y="{bottom - height:.2f}" height="{height:.2f}">'
        f"<title>{told}</title></rect>"
    )


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most about `most` round numbers from `low` to `high`."""
    rough = max(high - low, 1e-12) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def number(value: float) -> str:
    """A tick's label, with a true minus sign."""
    if abs(value) >= 1e6 or 0 < abs(value) < 1e-4:
        return f"{value:.0e}".replace("-", "\u2212")
    return f"{value:,.10g}".replace("-", "\u2212")
