"""The findings about one model."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Finding:
    """One finding of a diagnosis.

    Args:
        name: a short name for programs, such as `"collapsed_scale"`.
        message: what is wrong, in plain words.
        evidence: the numbers that the finding is based on, by name.
        remedy: what to do about it.
    """

    name: str
    message: str
    evidence: dict[str, Any]
    remedy: str

    @property
    def numbers(self) -> str:
        """The evidence as text."""
        texts = (
            f"{value:.3g}" if isinstance(value, float) else str(value)
            for value in self.evidence.values()
        )
        return ", ".join(map("=".join, zip(self.evidence, texts, strict=True)))

    def __str__(self) -> Any:
        return (
            f"{self.name}: {self.message}\n"
            f"    evidence: {self.numbers}\n"
            f"    remedy: {self.remedy}"
        )


class Diagnosis(list["Finding"]):
    """The list of findings about a model, most serious first.

    It prints as a report.

    >>> print(Diagnosis([]))
    Nothing suspicious found.
    """

    @property
    def names(self) -> list[str]:
        """Names of the findings, in their order."""
        return [finding.name for finding in self]

    def __str__(self) -> str:
        if not self:
            return "Nothing suspicious found."
        title = f"{len(self)} finding{'s' if len(self) > 1 else ''}"
        return "\n".join([title, *(f"- {finding}" for finding in self)])
