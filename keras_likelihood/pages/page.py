"""Writes self-contained HTML pages."""

import base64
import dataclasses
import hashlib
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any

from keras_likelihood.backend.extras import extras_for
from keras_likelihood.backend.files import Path, replacing

with extras_for("A page"):
    import jinja2
    from markupsafe import Markup, escape

_FOLDER = pathlib.Path(__file__).parent / "templates"
_NUMBER = re.compile(r"[-+\u2212]?[\d.,]+(e[-+]?\d+)?( ?%)?|-")


@dataclasses.dataclass
class Table:
    """A table with a heading; cells are text, or unescaped `Markup`."""

    columns: list[str]
    rows: list[list[Any]]
    title: str = ""


@dataclasses.dataclass
class Part:
    """A section of a page, whose body holds paragraphs, `Markup` and `Table`s.

    `advice` continues the sentence "First ...", and `command` follows it.
    """

    title: str
    summary: str
    body: list[Any] = dataclasses.field(default_factory=list)
    verdict: str = ""
    advice: str = ""
    command: str | None = None
    numbers: dict[str, Any] = dataclasses.field(default_factory=dict)


VERDICTS = {"good": "good", "look": "worth a look", "bad": "needs work"}
VERDICTS["unknown"] = "not checked"
"""The words for each verdict, in the terminal and on the page."""


def write_page(
    output: Path,
    template: str,
    title: str,
    *,
    scripts: Sequence[str] = (),
    **values: Any,
) -> None:
    """Renders a template with escaped values, and writes the page.

    The folder is created if it does not exist. Scripts share one scope.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["content_hash"] = content_hash
    environment.filters["number"] = _number_class
    environment.filters["words"] = _words
    # NaN and infinity are not JSON: a page with them would not open.
    compact = {"separators": (",", ":"), "allow_nan": False}
    environment.policies["json.dumps_kwargs"] = compact
    script = "\n".join(map(_read, scripts))
    page = environment.get_template(template).render(
        title=str(title),
        style=_read("page.css"),
        script=script and f'"use strict";\n{{\n{script}}}\n',
        verdicts=VERDICTS,
        **values,
    )
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    with replacing(output) as temporary:
        # File names may have characters that cannot be encoded.
        temporary.write_text(page, encoding="utf-8", errors="replace")


def content_hash(text: str) -> str:
    """The source expression of a content security policy for `text`."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _words(text: str) -> Markup:
    """Formats names in backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _number_class(value: Any) -> str:
    is_number = isinstance(value, str) and _NUMBER.fullmatch(value)
    return "number" if is_number else ""


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
