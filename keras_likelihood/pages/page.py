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
    """Writes a page from a template. Scripts share one scope."""
    script = "\n".join(map(_read, scripts))
    values |= {"title": str(title), "verdicts": VERDICTS}
    values["style"] = _read("page.css")
    values["script"] = script and f'"use strict";\n{{\n{script}}}\n'
    os.makedirs(os.path.dirname(os.path.abspath(output)), exist_ok=True)
    with replacing(output) as temporary:
        # File names may have characters that cannot be encoded.
        text = render(template, **values).encode("utf-8", "replace")
        temporary.write_bytes(text)


def render(template: str, **values: Any) -> str:
    """Renders a template with escaped values."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {"content_hash": content_hash, "words": _words}
    environment.filters |= filters | {"number": _number_class}
    # NaN and infinity are not JSON: a page with them would not open.
    compact = {"separators": (",", ":"), "allow_nan": False}
    environment.policies["json.dumps_kwargs"] = compact
    return environment.get_template(template).render(values)


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
