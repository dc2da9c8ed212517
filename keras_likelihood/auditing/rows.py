"""Examples as table cells."""

import numpy as np

from keras_likelihood.auditing.decimals import decimals

SHOWN_FEATURES = 6
"""Columns of the page's table; a single example is shown with more."""
HELD_FEATURES = 60
UNUSUAL = 3.5
"""Robust deviations from the median at which a value is marked."""


class Rows:
    """Examples as their first features and the most unusual one.

    Args:
        x: `(n, features)`; NaN is a missing value.
        names: of the features.
    """

    def __init__(self, x, names):
        self.x = x
        self.names = names
        self.features = [
            {"name": name, "digits": decimals(column)}
            for name, column in zip(names, x.T[:HELD_FEATURES], strict=False)
        ]
        sample = x[:: max(1, len(x) // 20_000)].astype("float64")
        held = ~np.isnan(sample)
        # A column without any value has no middle, and needs none.
        sample = np.where(held | held.any(axis=0), sample, 0)
        self.middle = np.nanmedian(sample, axis=0)
        spread = 1.4826 * np.nanmedian(np.abs(sample - self.middle), axis=0)
        # A column that is mostly one value has no median deviation.
        self.spread = np.where(spread > 0, spread, np.nanstd(sample, axis=0))

    def describe(self, index: int) -> dict:
        """What the page shows of an example."""
        row = self.x[index].astype("float64")
        away = np.divide(
            np.abs(row - self.middle),
            self.spread,
            out=np.zeros(len(row)),
            where=(self.spread > 0) & ~np.isnan(row),
        )
        first = away[:HELD_FEATURES] > UNUSUAL
        most = int(away.argmax())
        unusual = None
        if away[most] > UNUSUAL:
            unusual = f"{self.names[most]} = {row[most]:.4g}"
        return {
            "features": [_plain(value) for value in row[:HELD_FEATURES]],
            "marked": np.flatnonzero(first).tolist(),
            "unusual": unusual,
        }


def _plain(value):
    """A number that JSON knows, with as many digits as a page shows."""
    return None if np.isnan(value) else float(f"{value:.7g}")
