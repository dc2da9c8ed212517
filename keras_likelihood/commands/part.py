"""One part of a page."""

import dataclasses
from typing import Any


@dataclasses.dataclass
class Part:
    """One part of the page of a checkup or demo.

    Args:
        title: the title of the part.
        verdict: "good", "look", "bad" or "unknown"; "" for none.
        summary: what was found, in a sentence or two.
        body: HTML of figures and tables.
        advice: what to do, as the continuation of "First ...".
        command: the command or line of Python that does it, or `None`.
        numbers: what was measured, by name.
        recalibrator: the fitted recalibrator, or `None`.
    """

    title: str
    verdict: str
    summary: str
    body: str = ""
    advice: str = ""
    command: str | None = None
    numbers: dict = dataclasses.field(default_factory=dict)
    recalibrator: Any = None

    def as_dict(self) -> dict:
        """The part as a dict for JSON."""
        names = ("title", "verdict", "summary", "command", "numbers")
        return {name: getattr(self, name) for name in names}
