"""Docstrings of the package, which are Markdown, as reStructuredText.

Autodoc reads reStructuredText. The package's docstrings hold fenced code,
single backticks and indented formulas; this turns each into its counterpart
and leaves sections such as `Args:` to Napoleon.
"""

import re

_SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Example)s?:$")
_LITERAL = re.compile(r"(?<!`)`([^`\n]+)`(?!`)(?=(\w?))")
_DIVIDED = re.compile(r"`[^`]+`")
_TRAILING = re.compile(r"(?<![`\w\\])(\w+_)(?![\w`])")


def as_restructured_text(lines: list[str]) -> list[str]:
    """One docstring, line by line, in the other markup."""
    text = "\n".join(lines).expandtabs()
    text = text.replace("\nAttributes set by fitting:", "\nAttributes:")
    converted, fenced, in_section, formula = [], None, False, False
    for line in _join_literals(text).split("\n"):
        stripped = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        if stripped.startswith("```"):
            if fenced is None:
                fenced = indent
                language = stripped[3:] or "text"
                converted += ["", f"{indent}.. code-block:: {language}", ""]
            else:
                fenced = None
                converted.append("")
            continue
        if fenced is not None:
            converted.append("    " + line)
            continue
        if stripped and not indent:
            in_section = bool(_SECTION.match(stripped))
        if formula and stripped and not indent:
            formula = False
        if indent and not in_section and _opens_block(converted, formula):
            if not formula:
                converted += [".. code-block:: text", ""]
            formula = True
            converted.append(line)
            continue
        converted.append(_inline(line) if stripped else "")
    return converted


def _opens_block(converted, formula):
    return formula or not converted or converted[-1] == ""


def _inline(line):
    if line.lstrip().startswith(">>>"):
        return line
    # A letter after inline code, as in a plural, needs a separator.
    line = _LITERAL.sub(lambda m: f"``{m[1]}``" + ("\\ " if m[2] else ""), line)
    parts = re.split(r"(``[^`]+``)", line)
    return "".join(
        part if part.startswith("``") else _TRAILING.sub(r"``\1``", part)
        for part in parts
    )


def _join_literals(text):
    """Code in backticks that a line break divides goes on one line."""
    return "\n\n".join(
        block if "```" in block else _DIVIDED.sub(_on_one_line, block)
        for block in text.split("\n\n")
    )


def _on_one_line(literal):
    return re.sub(r"\n *", " ", literal[0])
