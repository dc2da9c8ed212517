"""Is the text of the pages easy to read?

    python tools/check_prose.py

Prints the Flesch reading ease of each page, and fails if one is below 50.
The score falls with the length of sentences and of words: 50 to 60 is fairly
difficult, 60 to 70 is plain English. Code, tables, formulas and lists of
publications are left out.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
LOWEST = 50
FEWEST_WORDS = 40
"""A page with fewer words of prose has no score."""
LEFT_OUT = ("references.md", "reference/", "paper/", "auto_gallery/")


def prose(text: str) -> str:
    """The running text of a page of Markdown."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"<[^>]+>", "", text)
    text = re.sub(r"^\[[^\]]*\]: \S+$", "", text, flags=re.M)
    text = re.sub(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", text)
    blocks = []
    for block in re.split(r"\n\s*\n", text):
        lines = [
            line
            for line in block.splitlines()
            if not re.match(r"\s*(\||#|:::|    )|^\(.*\)=$", line)
        ]
        block = " ".join(line.strip() for line in lines)
        items = re.split(r"(?:^| )(?:[-*]|\d+\.|:) ", block)
        blocks += [item for item in items if len(item.split()) > 3]
    # A name in backticks reads as one word of two syllables, whatever it is.
    text = " . ".join(blocks)
    text = re.sub(r"`[^`]+`", "model", text)
    return re.sub(r"[*_]", "", text)


def syllables(word: str) -> int:
    """About how many syllables an English word has."""
    word = re.sub(r"[^a-z]", "", word.lower())
    if len(word) <= 3:
        return 1
    word = re.sub(r"(?<![aeiouylt])e(?:s|d)?$|(?<=[aeiouy]le)s$", "", word)
    word = re.sub(r"ely$|ement(s?)$", lambda m: m[0][1:], word)
    return max(1, len(re.findall(r"[aeiouy]+", word)))


def reading_ease(text: str) -> float | None:
    """Flesch's score of a page, or `None` if there is too little text."""
    sentences = words = sounds = 0
    for sentence in re.split(r"[.!?](?:\s|$)", prose(text)):
        found = re.findall(r"[A-Za-z][A-Za-z'’-]*", sentence)
        if len(found) < 2:
            continue
        sentences += 1
        words += len(found)
        sounds += sum(
            syllables(part) for word in found for part in word.split("-")
        )
    if words < FEWEST_WORDS:
        return None
    return 206.835 - 1.015 * words / sentences - 84.6 * sounds / words


def pages() -> list[pathlib.Path]:
    """The README and every page of the documentation."""
    found = [
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if not str(path.relative_to(ROOT / "docs")).startswith(LEFT_OUT)
    ]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *found]


def main() -> int:
    hard = 0
    for path in pages():
        score = reading_ease(path.read_text())
        if score is None:
            continue
        hard += score < LOWEST
        mark = "  <- too hard" if score < LOWEST else ""
        print(f"{score:5.1f}  {path.relative_to(ROOT)}{mark}")
    return 1 if hard else 0


if __name__ == "__main__":
    sys.exit(main())
