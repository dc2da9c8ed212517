"""The figures show the right data."""

import matplotlib
import numpy as np
import pytest

from keras_likelihood import plots

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


def test_maps_have_a_row_per_example_and_one_range():
    images = np.random.default_rng(0).uniform(size=(3, 4, 5))
    maps = {"shape": np.eye(4), "scale": 1 + images}
    figure = plots.plot_parameter_maps(maps, {"given": images})
    titles = [a.get_title() for a in figure.axes if a.get_title()]
    assert titles == ["given", "shape", "scale"]
    drawn = [a.get_images()[0] for a in figure.axes if a.get_images()]
    shown = [np.asarray(one.get_array()) for one in drawn]
    np.testing.assert_array_equal(shown[0], images[0])
    np.testing.assert_array_equal(shown[1], np.eye(4))
    scales = [one for one in drawn if one.get_clim()[1] > 1.5]
    assert len(scales) == 3
    assert scales[0].get_clim() == (1 + images.min(), 1 + images.max())


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 3)])
def test_extremes_are_the_lowest_and_the_highest(shape):
    values = np.random.default_rng(0).permutation(10)
    images = np.broadcast_to(
        values.reshape(-1, *[1] * len(shape)), (10, *shape)
    )
    figure = plots.plot_extremes(images / 10, values, count=3, name="T")
    low, high = (a.get_images()[0].get_array() for a in figure.axes)
    assert low.shape[:2] == (4, 6)
    for mosaic, expected in ((low, [0, 1, 2]), (high, [9, 8, 7])):
        corners = np.asarray(mosaic)[::2, ::3].reshape(4, -1)[:3, 0]
        np.testing.assert_allclose(10 * corners, expected)
    assert figure.axes[0].get_title() == "lowest T: 0 to 2"
    with pytest.raises(ValueError, match="one per image, >= 11"):
        plots.plot_extremes(images, values, count=11)


def test_the_lowest_nll_is_where_the_scale_is_the_error():
    scales = np.geomspace(0.1, 10, 401)
    axes = plots.plot_nll("normal", "scale", scales, [0.5, 2.0]).axes[0]
    curve, best = axes.lines[0].get_xydata(), axes.lines[1].get_xydata()[0]
    assert best[0] == pytest.approx(0.5, rel=0.01)
    expected = np.log(curve[:, 0]) + 0.125 / curve[:, 0] ** 2
    expected += np.log(2 * np.pi) / 2
    np.testing.assert_allclose(curve[:, 1], expected, rtol=1e-4, atol=1e-4)
    figure = plots.plot_nll(
        "softmax", "temperature", scales, [0, 1], prediction=[1.0, 0.0]
    )
    right, _, wrong, _ = (line.get_ydata() for line in figure.axes[0].lines)
    np.testing.assert_allclose(wrong - right, 1 / scales, rtol=1e-3)
