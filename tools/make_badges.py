"""Draws the README's badges as files, so that nothing is fetched to see them.

python tools/make_badges.py
"""

import pathlib

BADGES = {
    "python": ("python", "3.11 | 3.12 | 3.13", "#3572a5"),
    "keras": ("keras", "3", "#d00000"),
    "backends": ("backends", "TensorFlow | JAX | PyTorch", "#5b4a8a"),
    "license": ("license", "Apache-2.0", "#4c7a34"),
}
PIXELS_A_CHARACTER = 6.6
TEMPLATE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" \
role="img" aria-label="{left}: {right}">
<title>{left}: {right}</title>
<clipPath id="r"><rect width="{width}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)">
<rect width="{split}" height="20" fill="#444"/>
<rect x="{split}" width="{rest}" height="20" fill="{color}"/>
</g>
<g fill="#fff" text-anchor="middle" font-size="11" \
font-family="Verdana,DejaVu Sans,sans-serif">
<text x="{at_left}" y="14">{left}</text>
<text x="{at_right}" y="14">{right}</text>
</g>
</svg>
"""


def draw(left, right, color):
    """The badge's SVG."""
    split = round(PIXELS_A_CHARACTER * len(left)) + 12
    rest = round(PIXELS_A_CHARACTER * len(right)) + 12
    return TEMPLATE.format(
        left=left,
        right=right,
        color=color,
        split=split,
        rest=rest,
        width=split + rest,
        at_left=split / 2,
        at_right=split + rest / 2,
    )


def main():
    folder = pathlib.Path(__file__).parents[1] / "docs" / "_static" / "badges"
    folder.mkdir(parents=True, exist_ok=True)
    for name, parts in BADGES.items():
        (folder / f"{name}.svg").write_text(draw(*parts))


if __name__ == "__main__":
    main()
