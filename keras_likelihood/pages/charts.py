"""Charts as inline SVG. The colours are in the stylesheet."""

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from markupsafe import Markup

from keras_likelihood.backend.types import Array
from keras_likelihood.pages.page import render

Range: TypeAlias = tuple[float, float]


class Chart:
    """A chart with two linear axes, whose ticks map values to texts."""

    LEFT, RIGHT, TOP, BOTTOM = 68, 16, 12, 54

    def __init__(
        self,
        x: Range,
        y: Range,
        names: tuple[str, str],
        label: str,
        size: tuple[int, int] = (640, 250),
        x_ticks: dict[float, str] | None = None,
        y_ticks: dict[float, str] | None = None,
    ):
        self._ranges, self.label, self.size = (x, y), label, size
        self.shapes: list[tuple[str, dict[str, Any], str, str]] = []
        (left, right), bottom, (width, height) = x, y[0], size
        for value, text in (y_ticks or named(ticks(*y, 5))).items():
            across, down = self.place(left, value)
            self.line("grid", [(left, value), (right, value)])
            place = {"x": across - 8, "y": down + 4}
            self._add("text", "left tick", place, text)
        for value, text in (x_ticks or named(ticks(*x, 5))).items():
            across, down = self.place(value, bottom)
            self._add("text", "tick", {"x": across, "y": down + 20}, text)
        middle = (self.LEFT + width - self.RIGHT) / 2
        self._add("text", "axis", {"x": middle, "y": height - 6}, names[0])
        middle = (self.TOP + height - self.BOTTOM) / 2
        turn = {"transform": f"rotate(-90 14 {middle})"}
        self._add("text", "axis", {"x": 14, "y": middle, **turn}, names[1])

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The position of a point in pixels."""
        (low, high), (bottom, top) = self._ranges
        width = self.size[0] - self.LEFT - self.RIGHT
        height = self.size[1] - self.TOP - self.BOTTOM
        across, up = (x - low) / (high - low), (y - bottom) / (top - bottom)
        return (
            round(self.LEFT + width * float(across), 2),
            round(self.TOP + height * (1 - float(up)), 2),
        )

    def _add(
        self,
        tag: str,
        css: str,
        places: dict[str, Any],
        text: str = "",
        title: str = "",
    ) -> None:
        self.shapes.append((tag, {"class": css, **places}, text, title))

    def line(self, css: str, points: Any, shape: str = "polyline") -> None:
        """Draws a line through points `(x, y)`."""
        path = " ".join("{},{}".format(*self.place(*p)) for p in points)
        self._add(shape, css, {"points": path})

    def band(self, css: str, x: Any, low: Any, high: Any) -> None:
        """Fills the area between two curves over `x`."""
        there, back = zip(x, low, strict=True), zip(x, high, strict=True)
        self.line(css, [*there, *list(back)[::-1]], "polygon")

    def dot(self, css: str, point: Range, radius: float, text: str) -> None:
        """Draws a point `(x, y)` with a tooltip."""
        x, y = self.place(*point)
        self._add("circle", css, {"cx": x, "cy": y, "r": radius}, title=text)

    def bar(
        self, css: str, left: float, right: float, value: float, text: str
    ) -> None:
        """Draws a bar from zero to `value`, unless it is zero."""
        if value:
            (x, y), (end, bottom) = map(self.place, (left, right), (value, 0))
            # A single example among thousands must still be visible.
            y = min(y, bottom - 1.5)
            box = {"x": x + 0.5, "width": end - x - 1, "y": y}
            box |= {"height": bottom - y}
            box = {name: round(value, 2) for name, value in box.items()}
            self._add("rect", css, box, title=text)

    def figure(
        self, keys: dict[str, str] | None = None, caption: str = ""
    ) -> Markup:
        """The chart with a legend: `keys` maps CSS classes to names."""
        values = {"chart": self, "keys": keys or {}, "caption": caption}
        return Markup(render("chart.html", **values))


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
        (0, scale(most)),
        (name, "examples"),
        f"Histogram of {len(scores)} values from {low:.3g} to {high:.3g}, "
        f"median {np.median(scores):.3g}; {int(marked.sum())} examples are "
        f"{word}.",
        y_ticks={scale(v): text for v, text in named(marks).items()},
    )
    bins = zip(edges[:-1], edges[1:], counts, some, strict=True)
    for left, right, count, few in bins:
        text = f"{left:.3g} to {right:.3g}: {count} examples"
        chart.bar("bar", left, right, scale(count), text)
        chart.bar("bar issue", left, right, scale(few), f"{text}, {few} {word}")
    return chart.figure({"all": "all examples", "issue": word})


def reliability(
    curves: dict[str, list[dict[str, Any]]], expected: str, observed: str
) -> Markup:
    """A reliability diagram; `curves` maps CSS classes to lists of dicts."""
    label = f"{observed} against {expected}"
    quarters = {tick: f"{tick:.0%}" for tick in (0, 0.25, 0.5, 0.75, 1)}
    unit, names, size = (0, 1), (expected, observed), (400, 380)
    chart = Chart(unit, unit, names, label, size, quarters, quarters)
    chart.line("diagonal", [(0, 0), (1, 1)])
    curves = {css: curve for css, curve in curves.items() if curve}
    for css, curve in curves.items():
        points = [(row["expected"], row["observed"]) for row in curve]
        most = max(row["count"] for row in curve)
        chart.line(css, points)
        for row, point in zip(curve, points, strict=True):
            text = f"{row['name']}: {row['observed']:.1%} of {row['count']:,}"
            size = round(2.5 + 4 * (row["count"] / most) ** 0.5, 1)
            chart.dot(css, point, size, text)
    legend = {css: css for css in curves} if len(curves) > 1 else {}
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
