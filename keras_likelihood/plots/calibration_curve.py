"""Calibration curve and PIT histogram of regressors."""

import numpy as np

from keras_likelihood.metrics.functions import calibration_error

_COLOURS = ("#c05621", "#2b6cb0", "#2f855a", "#6b46c1")


def plot_calibration_curve(cdf_values, *, axes=None):
    """Draws observed against predicted frequencies.

    The curve of a calibrated model follows the diagonal. The grey band
    contains 95 % (pointwise) of the curves of calibrated models on as many
    data.

    Args:
        cdf_values: the predicted cdf at the targets, F_i(y_i), or a dict of
            titles to them.
        axes: Matplotlib axes, or `None` for a new figure.

    Returns:
        The Matplotlib figure.
    """
    axes = axes or _new_axes()
    curves = cdf_values if isinstance(cdf_values, dict) else {"": cdf_values}
    p = np.linspace(0, 1, 201)
    count = min(np.size(v) for v in curves.values())
    half = 1.96 * np.sqrt(p * (1 - p) / count)
    axes.fill_between(p, p - half, p + half, color="#e2e8f0", zorder=0)
    axes.plot([0, 1], [0, 1], color="#a0aec0", linewidth=1)
    for colour, (title, values) in zip(_COLOURS, curves.items(), strict=False):
        ordered = np.sort(np.ravel(values))
        share = np.searchsorted(ordered, p, side="right") / len(ordered)
        cal = calibration_error(ordered)
        label = f"{title}  CAL {cal:.4f}".strip()
        axes.plot(p, share, color=colour, label=label)
    axes.legend(frameon=False, loc="upper left")
    axes.set(
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
        xlabel="predicted frequency",
        ylabel="observed frequency",
    )
    return axes.figure


def plot_pit_histogram(cdf_values, *, bins: int = 20, axes=None):
    """Draws the histogram of F_i(y_i), which is flat if calibrated.

    If the middle is high, the scales are too large. If the middle is low, they
    are too small. A slope is a bias. The grey band contains 95 % of the bars
    (each by itself) of a calibrated model.

    Args:
        cdf_values: the predicted cdf at the targets.
        bins: number of bars. Defaults to 20.
        axes: Matplotlib axes, or `None` for a new figure.

    Returns:
        The Matplotlib figure.
    """
    axes = axes or _new_axes()
    values = np.ravel(cdf_values)
    density, edges = np.histogram(values, bins, (0, 1), density=True)
    half = 1.96 * np.sqrt(bins * (1 - 1 / bins) / len(values))
    axes.axhspan(max(1 - half, 0), 1 + half, color="#e2e8f0", zorder=0)
    axes.stairs(density, edges, fill=True, color=_COLOURS[1], alpha=0.7)
    axes.axhline(1, color="#a0aec0", linewidth=1)
    axes.set(xlim=(0, 1), xlabel="F(y)", ylabel="density")
    return axes.figure


def _new_axes():
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(4.2, 4.2), layout="constrained")
    return axes
