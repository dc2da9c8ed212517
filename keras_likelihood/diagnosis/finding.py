"""One finding, with its numbers and a remedy."""

import dataclasses


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
