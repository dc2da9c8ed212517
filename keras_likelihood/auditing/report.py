"""What an audit found."""

import csv
import dataclasses
import os

import numpy as np


@dataclasses.dataclass
class AuditReport:
    """Scores and suspected label errors of every example, in their order.

    Args:
        task: `"classification"` or `"regression"`.
        scores: `(n,)`; high is suspicious.
        score_name: what the score is, in two or three words.
        score_meaning: the same in a sentence.
        label_issues: dict of arrays `(n,)` in cleanlab's columns:
            `is_label_issue`, `label_quality` (in [0, 1], low is bad),
            `given_label`, `predicted_label`.
        nll: `(n,)` negative log-likelihood of the labels.
        columns: further columns of the page, by name, each `(n,)`.
        rule: by what rule an example is suspected, in a sentence.
        path: path of the page, or `None` if none was written.
        label_names: names of the classes, or `None` for regression.

    >>> report = kl.audit(model, x, y)
    >>> x[report.suspects()[:20]]
    """

    task: str
    scores: np.ndarray
    score_name: str
    score_meaning: str
    label_issues: dict
    nll: np.ndarray
    columns: dict = dataclasses.field(default_factory=dict)
    rule: str = ""
    path: str | None = None
    label_names: list[str] | None = None

    @property
    def num_issues(self) -> int:
        """How many labels are suspected."""
        return int(self.label_issues["is_label_issue"].sum())

    def ranked(self) -> np.ndarray:
        """Indices `(n,)` of all examples by falling score."""
        return np.argsort(-self.scores, kind="stable")

    def suspects(self) -> np.ndarray:
        """Indices of the suspected examples, the worst first."""
        issues = np.flatnonzero(self.label_issues["is_label_issue"])
        quality = self.label_issues["label_quality"][issues]
        # Qualities may tie at zero, where the likelihood still tells.
        return issues[np.lexsort((-self.nll[issues], quality))]

    def shown_columns(self) -> dict:
        """`columns` without the one that is the score itself."""
        is_score = self.score_name == "predicted scale"
        return {
            k: v
            for k, v in self.columns.items()
            if k != "scale" or not is_score
        }

    def to_csv(self, path: str | os.PathLike) -> None:
        """Writes `label_issues` with the index in front and `score` last."""
        columns = {
            "index": np.arange(len(self.scores)),
            **self.label_issues,
            "score": self.scores,
        }
        rows = zip(*(c.tolist() for c in columns.values()), strict=True)
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(rows)

    def label_issues_frame(self):
        """`label_issues` as a `pandas.DataFrame`; needs pandas."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "`label_issues_frame` needs pandas; `label_issues` and "
                "`to_csv` hold the same without it."
            ) from error
        return pandas.DataFrame(self.label_issues)

    def __repr__(self) -> str:
        return (
            f"AuditReport({self.task} of {len(self.scores)} examples, "
            f"score={self.score_name!r}, num_issues={self.num_issues}, "
            f"path={self.path!r})"
        )
