"""Examples as table cells."""

import numpy as np

from keras_likelihood.auditing.decimals import decimals

SHOWN_FEATURES = 6
UNUSUAL = 3.5
"""Robust deviations from the median at which a value is marked."""


class Rows:
    """Examples as their first features and the most unusual one.

    Args:
        x: `(n, features)`.
        names: of the features.
    """

    def __init__(self, x, names):
        self.x = x
        self.names = names
        self.features = [
            {"name": name, "digits": decimals(column)}
            for name, column in zip(names, x.T[:SHOWN_FEATURES], strict=False)
        ]
        sample = x[:: max(1, len(x) // 20_000)].astype("float64")
        self.middle = np.median(sample, axis=0)
        spread = 1.4826 * np.median(np.abs(sample - self.middle), axis=0)
        # A column that is mostly one value has no median deviation.
        self.spread = np.where(spread > 0, spread, sample.std(axis=0))

    def describe(self, index: int) -> dict:
        """What the page shows of an example."""
        row = self.x[index].astype("float64")
        away = np.divide(
            np.abs(row - self.middle),
            self.spread,
            out=np.zeros(len(row)),
            where=self.spread > 0,
        )
        first = away[:SHOWN_FEATURES] > UNUSUAL
        most = int(away.argmax())
        unusual = None
        if away[most] > UNUSUAL:
            unusual = f"{self.names[most]} = {row[most]:.4g}"
        return {
            "features": row[:SHOWN_FEATURES].tolist(),
            "marked": np.flatnonzero(first).tolist(),
            "unusual": unusual,
        }
