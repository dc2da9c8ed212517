"""Charts as inline SVG. The colours are in the stylesheet."""

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from markupsafe import Markup, escape

from keras_likelihood.backend.types import Array

Range: TypeAlias = tuple[float, float]


class Chart:
    """A chart with two linear axes."""

    LEFT, RIGHT, TOP, BOTTOM = 68, 16, 12, 54

    def __init__(
        self,
        x: Range,
        y: Range,
        names: tuple[str, str],
        label: str,
        size: tuple[int, int] = (640, 250),
    ):
        self._ranges, self._names = (x, y), names
        self._label, self._size = label, size
        self._parts: list[str] = []

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The position of a point in pixels."""
        (low, high), (bottom, top) = self._ranges
        width = self._size[0] - self.LEFT - self.RIGHT
        height = self._size[1] - self.TOP - self.BOTTOM
        across, up = (x - low) / (high - low), (y - bottom) / (top - bottom)
        return (
            round(self.LEFT + width * float(across), 2),
            round(self.TOP + height * (1 - float(up)), 2),
        )

    def grid(
        self,
        x_ticks: dict[float, str] | None = None,
        y_ticks: dict[float, str] | None = None,
    ) -> None:
        """Draws the axes; `x_ticks` and `y_ticks` map values to texts."""
        (left, right), (bottom, top) = self._ranges
        y_ticks = y_ticks or named(ticks(bottom, top, 5))
        for value, text in y_ticks.items():
            x, y = self.place(left, value)
            self.line("grid", [(left, value), (right, value)])
            self._text("tick", x - 8, y + 4, text, "end")
        x_ticks = x_ticks or named(ticks(left, right, 5))
        for value, text in x_ticks.items():
            x, y = self.place(value, bottom)
            self._text("tick", x, y + 20, text)
        width, height = self._size
        middle = (self.LEFT + width - self.RIGHT) / 2
        self._text("axis", middle, height - 6, self._names[0])
        y = (self.TOP + height - self.BOTTOM) / 2
        turn = f' transform="rotate(-90 14 {y})"'
        self._text("axis", 14, y, self._names[1], more=turn)

    def _text(
        self,
        css: str,
        x: float,
        y: float,
        text: str,
        anchor: str = "middle",
        more: str = "",
    ) -> None:
        self._parts.append(
            f'<text class="{css}" x="{x}" y="{y}" text-anchor="{anchor}"'
            f"{more}>{escape(text)}</text>"
        )

    def line(self, css: str, points: Any, shape: str = "polyline") -> None:
        """Draws a line through points `(x, y)`."""
        path = " ".join("{},{}".format(*self.place(*p)) for p in points)
        self._parts.append(f'<{shape} class="{css}" points="{path}"/>')

    def band(self, css: str, x: Any, low: Any, high: Any) -> None:
        """Fills the area between two curves over `x`."""
        there, back = zip(x, low, strict=True), zip(x, high, strict=True)
        self.line(css, [*there, *list(back)[::-1]], "polygon")

    def dots(
        self,
        css: str,
        points: Any,
        radius: Any = 3.0,
        texts: list[str] | None = None,
    ) -> None:
        """Draws points `(x, y)`, with tooltips `texts`."""
        radii = np.broadcast_to(radius, len(points))
        for at, point in enumerate(points):
            x, y = self.place(*point)
            title = f"<title>{escape(texts[at])}</title>" if texts else ""
            self._parts.append(
                f'<circle class="{css}" cx="{x}" cy="{y}" '
                f'r="{radii[at]:.1f}">{title}</circle>'
            )

    def bar(
        self, css: str, left: float, right: float, value: float, text: str
    ) -> None:
        """Draws a bar from zero to `value`, unless it is zero."""
        if not value:
            return
        (x, y), (end, bottom) = self.place(left, value), self.place(right, 0)
        # A single example among thousands must still be visible.
        height = max(bottom - y, 1.5)
        self._parts.append(
            f'<rect class="{css}" x="{x + 0.5:.2f}" '
            f'width="{end - x - 1:.2f}" y="{bottom - height:.2f}" '
            f'height="{height:.2f}"><title>{escape(text)}</title></rect>'
        )

    def figure(
        self, keys: dict[str, str] | None = None, caption: str = ""
    ) -> Markup:
        """The chart with a legend: `keys` maps CSS classes to names."""
        width, height = self._size
        legend = "".join(
            f'<span class="named"><span class="key {css}"></span>'
            f"{escape(text)}</span>"
            for css, text in (keys or {}).items()
        )
        shape = "square" if width < 1.6 * height else "wide"
        return Markup(
            f'<figure class="{shape}"><svg viewBox="0 0 {width} {height}" '
            f'role="img" aria-label="{escape(self._label)}">'
            f"{''.join(self._parts)}</svg><figcaption>{legend}"
            f"{escape(caption)}</figcaption></figure>"
        )


def histogram(
    scores: Array, marked: Array, name: str, word: str = "suspected"
) -> Markup:
    """A histogram of scores `(n,)`; `word` describes the marked ones."""
    low, high = float(scores.min()), float(scores.max())
    if not high - low > 1e-9 * max(abs(low), abs(high)):
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, 41)
    counts, some = (np.histogram(v, edges)[0] for v in (scores, scores[marked]))
    most = int(counts.max())
    # If a bar has hundreds of examples, heights are logarithms. Otherwise a few
    # suspected ones would be invisible.
    scale = math.log1p if most >= 100 else float
    marks = [t for t in ticks(0, most, 4) if t == int(t)]
    if most >= 100:
        marks = [0, *(10**k for k in range(len(str(most))))]
    chart = Chart(
        (low, high),
        (0, 1),
        (name, "examples"),
        f"Histogram of {len(scores)} values from {low:.3g} to {high:.3g}, "
        f"median {np.median(scores):.3g}; {int(marked.sum())} examples are "
        f"{word}.",
    )
    texts = named(marks).items()
    chart.grid(y_ticks={scale(v) / scale(most): text for v, text in texts})
    for left, right, count, few in zip(
        edges[:-1], edges[1:], counts, some, strict=True
    ):
        text = f"{left:.3g} to {right:.3g}: {count} examples"
        chart.bar("bar", left, right, scale(count) / scale(most), text)
        text = f"{text}, {few} {word}"
        chart.bar("bar issue", left, right, scale(few) / scale(most), text)
    return chart.figure({"all": "all examples", "issue": word})


def reliability(
    curves: dict[str, list[dict[str, Any]]],
    expected: str,
    observed: str,
    names: dict[str, str] | None = None,
) -> Markup:
    """A reliability diagram; `curves` maps CSS classes to lists of dicts.

    With several curves there is a legend of the classes, or of their `names`.
    """
    label = f"{observed} against {expected}"
    chart = Chart((0, 1), (0, 1), (expected, observed), label, (400, 380))
    quarters = {tick: f"{tick:.0%}" for tick in (0, 0.25, 0.5, 0.75, 1)}
    chart.grid(quarters, quarters)
    chart.line("diagonal", [(0, 0), (1, 1)])
    curves = {css: curve for css, curve in curves.items() if curve}
    for css, curve in curves.items():
        points = [(row["expected"], row["observed"]) for row in curve]
        counts = np.array([row["count"] for row in curve])
        texts = [
            f"{row['name']}: {row['observed']:.1%} of {row['count']:,}"
            for row in curve
        ]
        chart.line(css, points)
        chart.dots(css, points, 2.5 + 4 * (counts / counts.max()) ** 0.5, texts)
    legend = names or dict(zip(curves, curves, strict=True))
    legend = legend if len(curves) > 1 else {}
    text = "A calibrated model is on the diagonal."
    if len({row["count"] for curve in curves.values() for row in curve}) > 1:
        text += " Larger points stand for more examples."
    return chart.figure(legend, text)


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most about `most` round numbers from `low` to `high`."""
    rough = max(high - low, 1e-12) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def named(values: Iterable[float]) -> dict[float, str]:
    """The text of each tick, with a true minus sign."""
    texts = {}
    for value in values:
        is_plain = 1e-4 <= abs(value) < 1e6 or not value
        text = f"{value:,.10g}" if is_plain else f"{value:.0e}"
        texts[value] = text.replace("-", "\u2212")
    return texts
