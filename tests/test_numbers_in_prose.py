"""Numbers in the prose of measured pages have a source.

Most numbers of these pages are generated between marks, and
`test_measured_pages.py` compares them with the stored results. A number
outside the marks must be in the list below, either because it defines
something (a size, a level, a year, a version), or because a test in
`test_measured_pages.py` checks it. Other numbers in the text fail here.
"""

import pathlib
import re

import pytest

pytestmark = [pytest.mark.one_backend, pytest.mark.pages]

DOCS = pathlib.Path(__file__).parents[1] / "docs"
LISTED = {
    "outliers": {"defined": "0 0.1"},
    "recalibration": {
        "defined": "0 0.01 0.05 0.1 0.10 0.95 1 1e-13 30 99.8 256 2026",
        "tested": "2,048 5,000",
    },
    "robust_regression": {"defined": "1.6 5 20 45 500 1980 1991 2000 2006"},
    "studies/outliers": {"defined": "1 5", "tested": "18 110 140 .75"},
    "studies/recalibration": {
        "defined": "0.9 1.3 1.6 10 50 95 99",
        "tested": "0.1 7 8 9 10 .876 .888 .894 .906 2,500",
    },
    "studies/robust_regression": {
        "defined": "0.01 1 3 4 10 19 20 30 45 50 90 95 100 200 1000 1199 10,000"
    },
    "studies/speed": {"defined": "6 64 100 256 400"},
    "studies/uncertainty": {
        "defined": "0 .001 .01 0.01 0.0014 0.014 0.9 10 20 50 90 95 2,000 "
        "2015 5",
        "tested": "3 5 10 20 5,000",
    },
}
GENERATED = re.compile(r"<!-- ([\w ]+) -->.*?<!-- end of \1 -->", re.DOTALL)
CODE = re.compile(r"^```.*?^```|^    .*?$|^\|.*?$", re.DOTALL | re.MULTILINE)
NAMES = re.compile(r"`[^`]*`|\]\([^)]*\)")
NUMBER = re.compile(r"(?<![\w.-])(?:\d[\d,]*)?\.?\d+(?:e-?\d+)?")


def numbers(text):
    """The numbers of a page's prose, without code, tables and addresses."""
    for pattern in (GENERATED, CODE, NAMES):
        text = pattern.sub("", text)
    return set(NUMBER.findall(text))


@pytest.mark.parametrize("page", LISTED)
def test_every_number_has_a_source(page):
    found = numbers((DOCS / f"{page}.md").read_text())
    listed = set(" ".join(LISTED[page].values()).split())
    assert found <= listed, found - listed
    assert listed <= found, listed - found


def test_typed_results_are_noticed():
    text = (
        "It takes 1.5 s on 2,048 rows, below .75 (1e-13, see `x[3]`).\n\n"
        "<!-- a -->\n7 and 8\n<!-- end of a -->\n\n| 9 |\n\n    run 10\n\n"
        "```\nx = 11\n```\n\nResNet-50 and CIFAR-10 are names: [12](13.md).\n"
    )
    assert numbers(text) == {"1.5", "2,048", ".75", "1e-13", "12"}
