"""A network that was trained on wrong labels finds them."""

import dataclasses

from keras_likelihood.auditing import audit, train_for_audit
from keras_likelihood.demo.data import wrong_digits
from keras_likelihood.demo.page_title import TITLE


@dataclasses.dataclass
class Found:
    """What the audit found, and what is true.

    Args:
        examples: how many there are.
        wrong: how many labels are wrong.
        suspected: how many labels the audit suspects.
        hits: how many of those are wrong.
        ranked: number of wrong labels among the first `wrong` of the ranking.
    """

    examples: int
    wrong: int
    suspected: int
    hits: int
    ranked: int

    def __str__(self):
        return (
            f"{self.wrong} of {self.examples:,} labels are wrong. The audit "
            f"suspects {self.suspected}, of which {self.hits} are wrong. Of "
            f"the {self.wrong} labels it ranks worst, {self.ranked} are wrong."
        )


def find_wrong_labels(page, on_epoch, quick: bool) -> Found:
    """Trains on digits with wrong labels and writes the page.

    Args:
        page: path of the page.
        on_epoch: as in `train_for_audit`.
        quick: whether to train on a few digits for two epochs only.
    """
    x, y, wrong = wrong_digits()
    if quick:
        x, y, wrong = x[:300], y[:300], wrong[:300]
    network = train_for_audit(
        x, y, epochs=2 if quick else None, on_epoch=on_epoch
    )
    report = audit(
        network.model,
        x,
        y,
        page,
        data_parameter=network.data_parameter,
        title=TITLE,
    )
    count = int(wrong.sum())
    return Found(
        examples=len(y),
        wrong=count,
        suspected=report.num_issues,
        hits=int(wrong[report.suspects()].sum()),
        ranked=int(wrong[report.ranked()[:count]].sum()),
    )
