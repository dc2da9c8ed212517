"""The figures show the right data."""

import numpy as np
import pytest

from keras_likelihood import plots

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_reliability_points_are_bin_means():
    p = np.array([0.62, 0.64, 0.9, 0.92])
    y = np.array([1, 0, 1, 1])
    figure = plots.plot_reliability(y, p, bins=10)
    points = figure.axes[0].containers[0].lines[0].get_xydata()
    np.testing.assert_allclose(points, [[0.63, 0.5], [0.91, 1.0]])


def test_before_and_after_share_a_figure():
    y, p = np.array([0, 1, 1]), np.array([0.2, 0.7, 0.9])
    figure = plots.compare_reliability(y, {"before": p, "after": p**0.5})
    assert [a.get_title() for a in figure.axes[:2]] == ["before", "after"]


def test_calibration_curve_is_the_empirical_cdf():
    values = np.array([0.25, 0.5, 0.75])
    axes = plots.plot_calibration_curve({"model": values}).axes[0]
    curve = axes.lines[1].get_xydata()
    at = dict(np.round(curve, 6).tolist())
    assert at[0.3] == pytest.approx(1 / 3, abs=1e-5)
    assert at[0.8] == 1.0


def test_pit_histogram_has_unit_mass():
    values = np.random.default_rng(0).uniform(size=500)
    axes = plots.plot_pit_histogram(values, bins=10).axes[0]
    heights = axes.patches[-1].get_data().values
    assert np.mean(heights) == pytest.approx(1)
