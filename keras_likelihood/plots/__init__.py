"""Figures. Matplotlib is imported when a figure is drawn."""

from keras_likelihood.plots.calibration import (
    compare_reliability,
    plot_calibration_curve,
    plot_pit_histogram,
    plot_reliability,
)
from keras_likelihood.plots.parameters import (
    plot_extremes,
    plot_nll,
    plot_parameter_maps,
)
from keras_likelihood.plots.prior_scales import (
    plot_prior_scales,
    plot_strengths,
)

__all__ = [
    "compare_reliability",
    "plot_calibration_curve",
    "plot_extremes",
    "plot_nll",
    "plot_parameter_maps",
    "plot_pit_histogram",
    "plot_prior_scales",
    "plot_reliability",
    "plot_strengths",
]
