"""The checkup as one self-contained HTML file."""

import importlib.resources

from keras_likelihood.auditing.page import content_hash, fill
from keras_likelihood.backend.whole_files import replacing
from keras_likelihood.commands.pictures import escape

_WORDS = {
    "good": "good",
    "look": "worth a look",
    "bad": "needs work",
    "unknown": "not known",
}


def write_page(output, title: str, parts: list, facts: dict) -> None:
    """Writes the page.

    Args:
        output: path to write.
        title: the title of the page.
        parts: list of `Part`s.
        facts: what was checked, by name.
    """
    style = _read("auditing", "page.css") + _read("commands", "checkup.css")
    page = fill(
        _read("commands", "checkup.html"),
        {
            "title": escape(title),
            "style": style,
            "style_hash": content_hash(style),
            "facts": "".join(
                f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
                for name, value in facts.items()
            ),
            "verdicts": "".join(
                _verdict(at, part) for at, part in enumerate(parts)
            ),
            "parts": "".join(_part(at, part) for at, part in enumerate(parts)),
        },
    )
    with replacing(output) as temporary:
        # Names of files may contain characters that cannot be encoded.
        temporary.write_text(page, encoding="utf-8", errors="replace")


def _verdict(at, part):
    return (
        f'<li><a href="#part-{at}">{escape(part.title)}</a> '
        f"{_badge(part)}<p>{escape(part.summary)}</p></li>"
    )


def _badge(part):
    if not part.verdict:
        return ""
    return f'<b class="badge {part.verdict}">{_WORDS[part.verdict]}</b>'


def _part(at, part):
    command = ""
    if part.command:
        advice = part.advice[:1].upper() + part.advice[1:]
        command = (
            f'<p class="advice">{escape(advice)}:</p>'
            f"<pre>{escape(part.command)}</pre>"
        )
    return (
        f'<section id="part-{at}"><h2>{escape(part.title)} {_badge(part)}</h2>'
        f"<p>{escape(part.summary)}</p>{part.body}{command}</section>"
    )


def _read(folder, name):
    files = importlib.resources.files("keras_likelihood") / folder
    return (files / name).read_text(encoding="utf-8")
