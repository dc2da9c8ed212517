"""Data for the demo: generated, or shipped with scikit-learn."""

from typing import NamedTuple

import numpy as np


class Split(NamedTuple):
    """Training and test data."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def curve(x):
    """`noisy_curve` without noise."""
    return np.sin(2 * x) + 0.5 * x


def noisy_curve(seed: int = 0) -> Split:
    """A curve whose noise grows to the right; 10 % of targets are too large."""
    rng = np.random.default_rng(seed)

    def draw(count):
        x = rng.uniform(-2, 2, size=(count, 1))
        y = curve(x) + (0.05 + 0.2 * (x + 2) / 4) * rng.normal(size=x.shape)
        wrong = rng.random(x.shape) < 0.1
        y = np.where(wrong, y + rng.uniform(2, 5, size=x.shape), y)
        return x.astype("float32"), y.astype("float32")

    return Split(*draw(600), *draw(2000))


def diabetes(seed: int = 0) -> Split:
    """442 patients, 10 measurements, disease progression after a year."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = order[:220], order[220:]
    x = (x - x[train].mean(axis=0)) / (x[train].std(axis=0) + 1e-6)
    y = ((y - y[train].mean()) / y[train].std())[:, None]
    x, y = x.astype("float32"), y.astype("float32")
    return Split(x[train], y[train], x[test], y[test])


def wrong_digits(seed: int = 0, wrong: float = 0.15):
    """1,797 digits `(n, 8, 8)`, labels of which some are wrong, true labels."""
    from sklearn.datasets import load_digits

    x, true = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    moved = rng.random(len(true)) < wrong
    y = np.where(moved, (true + rng.integers(1, 10, len(true))) % 10, true)
    return x.reshape(-1, 8, 8), y, true
