"""What an audit knows of each example."""

import dataclasses

import numpy as np

from keras_likelihood.auditing.scores import Score


@dataclasses.dataclass
class Findings:
    """The judgement of every example.

    Args:
        score: the `Score`.
        label_issues: dict of arrays `(n,)`, see `AuditReport`.
        nll: negative log-likelihood of the labels, `(n,)`.
        columns: further arrays `(n,)` by the name of their column.
        rule: by what rule an example is suspected, in sentences.
    """

    score: Score
    label_issues: dict
    nll: np.ndarray
    columns: dict
    rule: str
