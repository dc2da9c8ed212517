"""Draws docs/cheat_sheet.md as one A4 page: docs/_static/cheat_sheet.png.

    python tools/make_cheat_sheet.py

The picture carries a checksum of the page, and a test compares the two.
"""

import hashlib
import pathlib
import re

import matplotlib
import numpy as np
from PIL import Image, PngImagePlugin

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Otherwise characters are wider than the font says.
plt.rcParams["text.hinting"] = "no_hinting"

DOCS = pathlib.Path(__file__).parents[1] / "docs"
PAGE = DOCS / "cheat_sheet.md"
SIZE = (11.69, 8.27)
"""A4 landscape, in inches."""
COLUMNS = 2
MARGIN = 0.3
POINTS = 7.5
LINE = POINTS * 1.2 / 72
CHARACTER = POINTS * 0.602 / 72
"""Width of a character of DejaVu Sans Mono, in inches."""
LEFT_OUT = ("Data for this page",)


def sections(text: str) -> list[tuple[str, list[str]]]:
    """Headings and the lines of code below each."""
    found = re.findall(
        r"^## (.*?)\n\n```(?:python|sh)\n(.*?)```", text, flags=re.S | re.M
    )
    return [
        (title, [line for line in code.splitlines() if line.strip()])
        for title, code in found
        if title not in LEFT_OUT
    ]


def in_columns(parts) -> list[list]:
    """The sections in order, with columns as even in length as can be."""
    heights = [len(lines) + 2 for _, lines in parts]
    best = min(
        range(1, len(parts)),
        key=lambda cut: max(sum(heights[:cut]), sum(heights[cut:])),
    )
    return [parts[:best], parts[best:]]


def draw(parts):
    """A figure of the sections."""
    figure = plt.figure(figsize=SIZE, facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, SIZE[0]), ylim=(SIZE[1], 0))
    axes.axis("off")
    axes.text(
        MARGIN,
        0.38,
        "keras_likelihood",
        fontsize=15,
        weight="bold",
        va="center",
    )
    axes.text(
        MARGIN + 2.2,
        0.39,
        "import keras_likelihood as kl    x, y: arrays; label: class numbers; "
        "features: a layer's output",
        fontsize=8,
        color="#555555",
        va="center",
    )
    width = (SIZE[0] - 2 * MARGIN) / COLUMNS
    for number, column in enumerate(in_columns(parts)):
        _draw_column(axes, column, MARGIN + number * width, width - 0.15)
    return figure


def _draw_column(axes, column, left, width):
    top = 0.75
    for title, lines in column:
        axes.text(left, top, title, fontsize=9, weight="bold", color="#2b6cb0")
        axes.plot(
            [left, left + width], [top + 0.04] * 2, color="#2b6cb0", lw=0.7
        )
        top += 0.05 + LINE
        for line in lines:
            _draw_line(axes, line, left, top)
            top += LINE
        top += LINE * 0.9
    assert top < SIZE[1], f"{title} ends below the page"


def _draw_line(axes, line, left, top):
    style = {"fontsize": POINTS, "family": "DejaVu Sans Mono"}
    code, mark, comment = line.partition("  # ")
    axes.text(left, top, code.replace("$", r"\$"), **style)
    if mark:
        start = left + len(code) * CHARACTER
        axes.text(start, top, f"  # {comment}", color="#2f7d4f", **style)


def main():
    text = PAGE.read_text()
    figure = draw(sections(text))
    mark = hashlib.sha256(PAGE.read_bytes()).hexdigest()
    target = DOCS / "_static" / "cheat_sheet.png"
    figure.set_dpi(200)
    figure.canvas.draw()
    picture = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[..., :3])
    # A few colours will do, and make the file several times smaller.
    source = PngImagePlugin.PngInfo()
    source.add_text("Source", mark)
    picture.quantize(32).save(
        target, pnginfo=source, dpi=(200, 200), optimize=True
    )
    print(target)


if __name__ == "__main__":
    main()
