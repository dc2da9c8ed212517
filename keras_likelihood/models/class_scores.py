"""Scores that say how badly each class fits."""

import numpy as np

SCORES = ("aps", "raps", "lac")

ROUNDING = 1e-5
"""Largest relative rounding error of a probability on any backend."""


def class_scores(
    probabilities,
    score: str,
    *,
    penalty: float = 0.0,
    free_classes: int = 0,
    random=None,
    rounded: bool = False,
) -> np.ndarray:
    """Scores of all classes. A larger score is a worse fit.

        aps:  probability of the classes likelier than c, less 1
        raps: aps + penalty * max(0, rank of c - free_classes)
        lac:  -log(probability of c)

    The score `aps` is computed from the probabilities of c and of the less
    probable classes, added from the least probable up. So it is exact even if
    the most probable class has probability 1. If the scores are randomised,
    only a part of the probability of c counts.

    Args:
        probabilities: `(n, ..., classes)`.
        score: `"aps"`, `"raps"` or `"lac"`.
        penalty: the penalty of a class for each more probable class.
        free_classes: number of classes without penalty.
        random: uniform numbers `(n, ..., 1)` for the randomised scores, or
            `None`.
        rounded: whether to lower all scores by the rounding error of the
            probabilities. Equal inputs then get equal sets.
    """
    p = np.asarray(probabilities, dtype="float64")
    slack = ROUNDING if rounded else 0.0
    if score == "lac":
        return -np.log(np.maximum(p, np.finfo("float32").tiny)) - slack
    order = np.argsort(-p, axis=-1, kind="stable")
    falling = np.take_along_axis(p, order, axis=-1)
    from_least = np.cumsum(falling[..., ::-1], axis=-1)[..., ::-1]
    rest = from_least
    if random is not None:
        rest = rest - (1 - random) * falling
    found = -(1 + slack) * rest
    if score == "raps":
        beyond = np.arange(1, p.shape[-1] + 1) - free_classes
        found = found + penalty * np.maximum(beyond, 0)
    in_class_order = np.empty_like(found)
    np.put_along_axis(in_class_order, order, found, axis=-1)
    return in_class_order


def prediction_sets(
    probabilities, scores, settings: dict, coverage, groups=None, seed=None
) -> np.ndarray:
    """Which classes belong to the sets of a coverage.

    Args:
        probabilities: `(n, ..., classes)`, or the probability of yes, `(n,)`
            or `(n, ..., 1)`.
        scores: the `CalibrationScores`.
        settings: the settings of the calibration: `score`, `penalty`,
            `free_classes`, `randomized`, `allow_empty` and `by_class`.
        coverage: in (0, 1).
        groups: label of every example, or `None`.
        seed: the random seed of the randomised scores.

    Returns:
        Booleans `(n, ..., classes)`.
    """
    p = both_classes(probabilities)
    random = None
    if settings["randomized"]:
        uniform = np.random.default_rng(seed).uniform
        random = uniform(size=(*p.shape[:-1], 1))
    found = class_scores(
        p,
        settings["score"],
        penalty=settings["penalty"],
        free_classes=settings["free_classes"],
        random=random,
        rounded=True,
    )
    if settings["by_class"]:
        if groups is not None:
            raise ValueError(
                "The groups of this calibration are the classes. "
                "Leave out `groups`. Received: groups"
            )
        classes = p.shape[-1]
        bound = scores.threshold(coverage, np.arange(classes), classes)
        sets = found <= bound
    else:
        bound = scores.threshold(coverage, groups, len(p))
        sets = found <= bound[..., None]
    if not settings["allow_empty"]:
        top = p.argmax(axis=-1)[..., None]
        np.put_along_axis(sets, top, True, axis=-1)
    return sets


def both_classes(probabilities) -> np.ndarray:
    """Probabilities `(n, ..., classes)`. One column becomes no and yes."""
    p = np.asarray(probabilities, dtype="float64")
    if p.ndim == 1:
        p = p[:, None]
    return np.concatenate([1 - p, p], axis=-1) if p.shape[-1] == 1 else p
