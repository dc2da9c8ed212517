"""Figures. Matplotlib is imported when a figure is drawn."""

from keras_likelihood.plots.calibration_curve import (
    plot_calibration_curve,
    plot_pit_histogram,
)
from keras_likelihood.plots.prior_scales import plot_prior_scales
from keras_likelihood.plots.reliability import (
    compare_reliability,
    plot_reliability,
)

__all__ = [
    "compare_reliability",
    "plot_calibration_curve",
    "plot_pit_histogram",
    "plot_prior_scales",
    "plot_reliability",
]
