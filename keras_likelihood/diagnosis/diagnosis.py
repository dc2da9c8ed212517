"""The findings about one model."""

import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something a diagnosis found.

    Args:
        name: a short name for programs, such as `"collapsed_scale"`.
        message: what is wrong, in plain words.
        evidence: the numbers that the finding is based on, by name.
        remedy: what to do about it.
    """

    name: str
    message: str
    evidence: dict
    remedy: str

    def __str__(self):
        numbers = ", ".join(
            f"{name}={_shown(value)}" for name, value in self.evidence.items()
        )
        return (
            f"{self.name}: {self.message}\n"
            f"    evidence: {numbers}\n"
            f"    remedy: {self.remedy}"
        )


def _shown(value):
    return f"{value:.3g}" if isinstance(value, float) else f"{value}"


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """The findings about a model, the most serious first.

    It is a sequence of `Finding`s. It is true if there are any, and it prints
    as a report.

    >>> print(Diagnosis([]))
    Nothing suspicious found.

    Args:
        findings: the list.
    """

    findings: list[Finding]

    @property
    def names(self) -> list[str]:
        """Names of the findings, in their order."""
        return [finding.name for finding in self.findings]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self):
        return len(self.findings)

    def __getitem__(self, position):
        return self.findings[position]

    def __str__(self):
        if not self.findings:
            return "Nothing suspicious found."
        count = len(self.findings)
        title = f"{count} finding{'s' if count > 1 else ''}"
        return "\n".join([title, *(f"- {finding}" for finding in self)])
