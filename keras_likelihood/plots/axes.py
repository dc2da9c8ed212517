"""Axes of new figures. Matplotlib is imported when a figure is drawn."""

from typing import Any


def new_axes(rows: int = 1, columns: int = 1, **options: Any) -> Any:
    """Axes of a new figure: one, or an array `(rows, columns)` of several."""
    import matplotlib.pyplot as plt

    options = {"figsize": (5, 4), **options}
    return plt.subplots(rows, columns, layout="constrained", **options)[1]
