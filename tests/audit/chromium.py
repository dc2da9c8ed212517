"""A real browser, to see what a page does."""

import html.parser
import shutil
import subprocess

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium():
    """The path of a browser; skips the test where there is none."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    pytest.skip(f"needs a browser, one of {NAMES}")


def rendered(page, folder, fragment="") -> "Page":
    """The page after its scripts have run."""
    dom = subprocess.run(
        [
            chromium(),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={folder}",
            "--virtual-time-budget=2000",
            "--dump-dom",
            f"file://{page}{fragment}",
        ],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    ).stdout
    return Page(dom)


class Page(html.parser.HTMLParser):
    """The title, elements and sections of a rendered page.

    Attributes:
        title: text of the first `<title>`.
        tags: list of `(tag, attributes)`.
        text: all visible text.
        sections: id to a list of rows, each a list of the texts of its cells
            (of a table) or paragraphs (of a contact sheet).
    """

    def __init__(self, dom):
        super().__init__()
        self.title, self.tags, self.text, self.sections = "", [], "", {}
        self._path, self._section = [], None
        self.feed(dom)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag in ("meta", "img", "input", "line", "rect", "br"):
            return
        self._path.append(tag)
        if tag == "section":
            self._section = attrs.get("id")
            self.sections[self._section] = []
        elif tag in ("tr", "li") and self._section:
            self.sections[self._section].append([])
        elif tag in ("td", "p") and self._rows():
            self._rows()[-1].append("")

    def _rows(self):
        return self.sections.get(self._section)

    def handle_endtag(self, tag):
        if tag in self._path:
            while self._path.pop() != tag:
                pass
        if tag == "section":
            self._section = None

    def handle_data(self, data):
        if "script" in self._path or "style" in self._path:
            return
        if self._path[-1:] == ["title"] and not self.title:
            self.title = data
        self.text += data
        inside = {"td", "p"} & set(self._path) and {"tr", "li"} & set(
            self._path
        )
        if inside and self._rows():
            self._rows()[-1][-1] += data

    def column(self, section, at):
        """Texts of one column of a section's table, headings left out."""
        return [row[at] for row in self.sections[section] if row]
