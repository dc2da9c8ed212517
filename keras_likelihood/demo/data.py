"""Data for the demo: generated, or shipped with scikit-learn."""

import dataclasses

import numpy as np


@dataclasses.dataclass
class Split:
    """Standardised training data and a held-out part of the same kind."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    truth: np.ndarray | None = None
    """`y_test` without noise, if it is known."""


def curve(x):
    """`noisy_curve` without noise."""
    return np.sin(2 * x) + 0.5 * x


def noisy_curve(seed: int = 0) -> Split:
    """A curve whose noise grows to the right, with some large errors.

    One target in ten is too large by several units, also in the held-out
    part.
    """
    rng = np.random.default_rng(seed)

    def draw(count):
        x = rng.uniform(-2, 2, size=(count, 1))
        y = curve(x) + (0.05 + 0.2 * (x + 2) / 4) * rng.normal(size=x.shape)
        wrong = rng.random(x.shape) < 0.1
        y = np.where(wrong, y + rng.uniform(2, 5, size=x.shape), y)
        return x.astype("float32"), y.astype("float32")

    split = Split(*draw(600), *draw(2000))
    split.truth = curve(split.x_test)
    return split


def diabetes(seed: int = 0) -> Split:
    """442 patients, 10 measurements, disease progression after a year."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return _split(x, y[:, None], 300, seed)


def _split(x, y, count, seed):
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = order[:count], order[count:]
    x = (x - x[train].mean(axis=0)) / (x[train].std(axis=0) + 1e-6)
    y = (y - y[train].mean(axis=0)) / y[train].std(axis=0)
    x, y = x.astype("float32"), y.astype("float32")
    return Split(x[train], y[train], x[test], y[test])


def wrong_digits(seed: int = 0, wrong: float = 0.15):
    """1,797 digits of 8x8 pixels. Some of the labels are wrong.

    Args:
        seed: the random seed of the choice.
        wrong: share of labels that are moved to another digit.

    Returns:
        Images `(n, 8, 8)`, labels `(n,)`, and which of them are wrong.
    """
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    moved = rng.random(len(y)) < wrong
    y = np.where(moved, (y + rng.integers(1, 10, len(y))) % 10, y)
    return x.reshape(-1, 8, 8), y, moved
