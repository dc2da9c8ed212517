"""Runs pages in a real browser."""

import html.parser
import json
import re
import shutil
import subprocess

import pytest

from keras_likelihood.pages.page import content_hash

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium():
    """Path of a browser; skips the test if there is none."""
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


def acted(page, folder, steps, *, before="", fragment=""):
    """Runs a script that acts as a user, and returns its JSON result.

    The script is added to a copy of the page, whose policy allows nothing else.
    It has `press(key)`, `click(selector)`, `all(selector)` and the list `told`,
    and may call `finish()` after its end.

    Args:
        page: path of the page.
        folder: folder of the copy and the browser's profile.
        steps: the script.
        before: a script that runs before the page's own script.
        fragment: fragment of the address.
    """
    text = page.read_text(encoding="utf-8")
    steps = "\n" + _HANDS + steps + "\nif (!later) finish();\n"
    allowed = f"script-src {content_hash(steps)} {content_hash(before)} "
    text = text.replace("script-src ", allowed, 1)
    if before:
        text = text.replace("<main>", f"<script>{before}</script><main>", 1)
    text = text.replace("</body>", f"<script>{steps}</script></body>")
    copy = folder / "copy.html"
    copy.write_text(text, encoding="utf-8")
    seen = rendered(copy, folder / "profile", fragment)
    return json.loads(seen.title)


_HANDS = """
const told = [];
let later = false;
const all = (selector) => [...document.querySelectorAll(selector)];
const click = (selector) => document.querySelector(selector).click();
const press = (key) =>
  (document.activeElement || document.body).dispatchEvent(
    new KeyboardEvent("keydown", { key, bubbles: true }),
  );
const finish = () => { document.title = JSON.stringify(told); };
"""


def on_a_phone(page, folder, steps, width=390):
    """Runs a script on the page in a window as narrow as a phone.

    Windows of the browser cannot be so narrow, but frames can. The script has
    the `document` of the frame as `inner`, and the list `told`.
    """
    text = page.read_text(encoding="utf-8")
    text = re.sub("<meta http-equiv=[^>]*>", "", text)
    held = json.dumps(text).replace("<", "\\u003c")
    outer = f"""<!doctype html><title></title><body><script>
    const told = [], frame = document.createElement("iframe");
    frame.style.cssText = "width: {width}px; height: 844px; border: 0";
    frame.srcdoc = {held};
    frame.addEventListener("load", () => {{
      const inner = frame.contentDocument;
      {steps}
      document.title = JSON.stringify(told);
    }});
    document.body.append(frame);
    </script></body>"""
    path = folder / "phone.html"
    path.write_text(outer, encoding="utf-8")
    return json.loads(rendered(path, folder / "profile").title)


class Page(html.parser.HTMLParser):
    """Title, elements and sections of a rendered page.

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
        """Texts of one column of a section's table, without headings."""
        return [row[at] for row in self.sections[section] if row]
