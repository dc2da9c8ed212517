"""Counts what the built site must not have.

    python tools/count_docs.py build/docs

`make docs` runs it at the end. It fails unless all four numbers are 0:

- pages without a picture or an output. Pages to look something up, such as
  the reference, need none: see `LOOK_UP`;
- public names without a docstring or without a page;
- names of the package in prose that are no links;
- addresses from which a page would load something over the network.
"""

import os
import pathlib
import re
import sys
from html.parser import HTMLParser

DOCS = pathlib.Path(__file__).parents[1] / "docs"
sys.path[:0] = [
    str(DOCS.parent),
    str(DOCS / "reference"),
    str(DOCS / "extensions"),
]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from api_names import full_name  # noqa: E402
from public_names import missing, public_names, undocumented  # noqa: E402

LOOK_UP = re.compile(
    r"(_modules|reference|auto_gallery/index|studies)(/|\b)"
    r"|(genindex|search|py-modindex|changelog|contributing|protocol"
    r"|references|style|combinations|project|reliability|user_guide"
    r"|outliers|recalibration|robust_regression|\w+/index)\b"
)
OUTPUTS = {"output", "sphx-glr-script-out", "highlight-text"}
NO_PROSE = ("a", "pre", "h1", "h2", "h3", "h4", "dt", "title")
WITHOUT_END = ("img", "br", "hr", "input", "meta", "link", "path", "line")


class Page(HTMLParser):
    """What a page shows, names and loads."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.codes: list[str] = []
        self.loaded: list[str] = []
        self.shows = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        classes = set((found.get("class") or "").split())
        article = "article" in self.open
        self.shows |= article and (tag == "img" or bool(classes & OUTPUTS))
        address = found.get("src") or (tag == "link" and found.get("href"))
        if address and found.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(address)
        if tag not in WITHOUT_END:
            self.open.append(tag)
        if tag == "code" and article and not set(self.open) & set(NO_PROSE):
            self.codes.append("")

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        inside = "code" in self.open and not set(self.open) & set(NO_PROSE)
        if inside and "article" in self.open:
            self.codes[-1] += data


def outside(address: str) -> bool:
    return address.startswith(("http:", "https:", "//"))


def count(site: pathlib.Path) -> dict[str, list[str]]:
    """The faults of each kind, each as a line that names its place."""
    names = public_names()
    bare, unlinked, requests = [], [], []
    for path in sorted(site.rglob("*.html")):
        name = str(path.relative_to(site))
        page = Page(path.read_text())
        if not page.shows and not LOOK_UP.match(name):
            bare.append(name)
        unlinked += [
            f"{name}: {code}"
            for code in page.codes
            if full_name(code, names) and not name.startswith("_modules")
        ]
        requests += [f"{name}: {a}" for a in page.loaded if outside(a)]
    for path in sorted(site.rglob("*.css")):
        found = re.findall(r"url\(['\"]?([^)'\"]+)", path.read_text())
        requests += [f"{path.name}: {a}" for a in found if outside(a)]
    pages = {path.stem for path in (site / "reference" / "api").glob("*.html")}
    return {
        "pages without a picture or output": bare,
        "undocumented public names": undocumented() + missing(pages),
        "unlinked API names": unlinked,
        "external requests": requests,
    }


def main() -> int:
    faults = count(pathlib.Path(sys.argv[1]))
    for kind, places in faults.items():
        for place in places:
            print(f"  {kind}: {place}")
    for kind, places in faults.items():
        print(f"{len(places)} {kind}")
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
