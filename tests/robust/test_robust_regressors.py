"""Robust regressors: results and invariances."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.base import clone

from keras_likelihood.robust import DataScaleRegressor, PredictedScaleRegressor

pytestmark = pytest.mark.one_backend

ROBUST = [PredictedScaleRegressor(), DataScaleRegressor()]
ALL = [*ROBUST, PredictedScaleRegressor("x")]


def contaminated(seed, kind="spread", n=120, d=2, share=0.3, noise=0.1):
    """A plane, its slopes and which rows are outliers."""
    rng = np.random.default_rng(seed)
    x, slopes = rng.normal(size=(n, d)), 2 * rng.normal(size=d)
    y = x @ slopes + 3 + noise * rng.normal(size=n)
    out = np.arange(n) < round(share * n)
    m = out.sum()
    if kind != "random":
        x[out] = rng.normal(size=(m, d)) * 0.3
        x[out, 0] += 4 if kind == "cluster" else rng.uniform(3, 6, m)
    if kind == "cluster":
        y[out] = x[out] @ slopes - 15 + 0.3 * rng.normal(size=m)
    else:
        y[out] = 20 * rng.normal(size=m)
    return x, y, slopes, out


@pytest.mark.parametrize("kind", ["spread", "cluster", "random"])
@pytest.mark.parametrize("model", ROBUST, ids=str)
def test_outliers_do_not_matter(model, kind):
    """The error is similar to that of least squares without the outliers."""
    errors, oracle, plain = [], [], []
    for seed in range(5):
        x, y, slopes, out = contaminated(seed, kind)
        fits = (
            clone(model).fit(x, y),
            linear_model.LinearRegression().fit(x[~out], y[~out]),
            linear_model.LinearRegression().fit(x, y),
        )
        for fit, found in zip(fits, (errors, oracle, plain), strict=True):
            found.append(np.linalg.norm(fit.coef_ - slopes))
    assert np.median(errors) < 2 * np.median(oracle)
    assert np.median(plain) > 5 * np.median(errors)


def test_no_subset_is_free_of_outliers():
    """20 inputs, 44 % outliers on one side: clean subsets are very rare."""
    rng = np.random.default_rng(9)
    x, slopes = rng.normal(size=(300, 20)), rng.normal(size=20)
    y = x @ slopes + 0.1 * rng.normal(size=300)
    y[:132] += 20 * rng.uniform(0.3, 1, 132)
    found = PredictedScaleRegressor().fit(x, y).coef_
    np.testing.assert_allclose(found, slopes, atol=0.1)


@pytest.mark.parametrize("model", ROBUST, ids=str)
def test_scales_name_the_outliers(model):
    x, y, slopes, out = contaminated(0, "cluster")
    model = clone(model).fit(x, y)
    assert model.scale_[out].min() > 5 * np.median(model.scale_[~out])
    np.testing.assert_allclose(model.predict_scale(x, y), model.scale_)
    on_the_plane = model.predict_scale(x, model.predict(x))
    np.testing.assert_allclose(model.predict_scale(x), on_the_plane)
    new, new_y, _, new_out = contaminated(0, "cluster", n=200)
    scale = model.predict_scale(new, new @ slopes + 3 + 8 * new_out)
    assert scale[new_out].min() > scale[~new_out].max()


def test_scale_formulas():
    x, y, *_ = contaminated(1)
    model = PredictedScaleRegressor().fit(x, y)
    residual = np.abs(y - model.predict(x))
    floor = np.exp(model.scale_intercept_)
    inlier = residual < floor
    np.testing.assert_allclose(model.scale_[inlier], floor)
    outlier = residual > 8 * floor
    np.testing.assert_allclose(model.scale_[outlier], residual[outlier])
    assert model.shape_ == pytest.approx(0.3, abs=0.05)
    assert floor == pytest.approx(0.1, rel=0.3)
    model = DataScaleRegressor(restraint=1.0).fit(x, y)
    residual = np.abs(y - model.predict(x))
    floor = np.exp(model.scale_intercept_)
    expected = np.maximum(floor, residual / np.sqrt(2))
    np.testing.assert_allclose(model.scale_, expected)


def test_scale_from_x_finds_the_noise(rng):
    """log(scale) = x - 1 is in the model class, so it is found."""
    x = rng.normal(size=(2000, 1))
    y = 2 * x[:, 0] + np.exp(x[:, 0] - 1) * rng.normal(size=2000)
    model = PredictedScaleRegressor("x").fit(x, y)
    assert model.scale_coef_[0] == pytest.approx(1, abs=0.1)
    assert model.scale_intercept_ == pytest.approx(-1, abs=0.1)
    assert model.coef_[0] == pytest.approx(2, abs=0.03)
    np.testing.assert_allclose(model.predict_scale(x), model.scale_)


@pytest.mark.parametrize(
    "model",
    [
        PredictedScaleRegressor(restraint=np.inf),
        PredictedScaleRegressor("x", restraint=np.inf),
        DataScaleRegressor(restraint=np.inf),
    ],
    ids=str,
)
def test_infinite_restraint_is_least_squares(model):
    x, y, *_ = contaminated(0)
    weight = np.linspace(0.5, 2, len(y))
    model = model.fit(x, y, sample_weight=weight)
    plain = linear_model.LinearRegression().fit(x, y, weight)
    np.testing.assert_allclose(model.coef_, plain.coef_)
    assert model.intercept_ == pytest.approx(plain.intercept_)
    assert np.ptp(model.scale_) == 0


@pytest.mark.parametrize("model", ROBUST, ids=str)
def test_clean_data_cost_little(model):
    """The mean squared error is within 15 % of that of least squares."""
    errors, plain = [], []
    for seed in range(20):
        x, y, slopes, _ = contaminated(seed, "random", share=0.0, n=60)
        errors.append(clone(model).fit(x, y).coef_ - slopes)
        plain.append(linear_model.LinearRegression().fit(x, y).coef_ - slopes)
    assert np.sum(np.square(errors)) < 1.15 * np.sum(np.square(plain))


@pytest.mark.parametrize("model", ALL, ids=str)
def test_units_and_order_do_not_matter(model, rng):
    x, y, *_ = contaminated(3, "random")
    model = clone(model).fit(x, y)
    units = np.array([100.0, 0.01])
    moved = clone(model).fit(x * units + [5, -7], 3 * y + 11)
    np.testing.assert_allclose(moved.coef_, 3 * model.coef_ / units, rtol=1e-4)
    np.testing.assert_allclose(moved.scale_, 3 * model.scale_, rtol=1e-3)
    predictions = moved.predict(x * units + [5, -7])
    np.testing.assert_allclose(
        predictions, 3 * model.predict(x) + 11, rtol=1e-4, atol=1e-4
    )
    order = rng.permutation(len(y))
    shuffled = clone(model).fit(x[order], y[order])
    np.testing.assert_allclose(shuffled.coef_, model.coef_, rtol=1e-12)
    np.testing.assert_allclose(shuffled.scale_, model.scale_[order])


@pytest.mark.parametrize("model", ALL, ids=str)
def test_weights_are_repetitions_up_to_a_factor(model, rng):
    x, y, *_ = contaminated(4)
    times = rng.integers(0, 4, len(y))
    weighted = clone(model).fit(x, y, sample_weight=0.1 * times)
    repeated = clone(model).fit(x.repeat(times, axis=0), y.repeat(times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)


@pytest.mark.parametrize("model", ROBUST, ids=str)
def test_more_rows_than_are_screened(model):
    x, y, slopes, _ = contaminated(0, "cluster", n=3000, share=0.4)
    model = clone(model).fit(x, y)
    np.testing.assert_allclose(model.coef_, slopes, atol=0.02)


@pytest.mark.parametrize("model", ALL, ids=str)
def test_degenerate_data(model):
    x = np.column_stack([np.arange(6.0), np.full(6, 7.0)])
    fitted = clone(model).fit(x, 2 * x[:, 0] + 1)
    np.testing.assert_allclose(fitted.predict(x), 2 * x[:, 0] + 1, atol=1e-6)
    constant = clone(model).fit(x, np.full(6, 3.0))
    np.testing.assert_allclose(constant.predict(x), 3.0)
    few = clone(model).fit(np.eye(3), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(few.predict(np.eye(3)), [1, 2, 3], atol=1e-6)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (PredictedScaleRegressor("y"), "`inputs` must be 'x' or 'xy'. Rec"),
        (PredictedScaleRegressor(restraint=-1), "`restraint` must be .* -1"),
        (PredictedScaleRegressor(floor=0), "`floor` must be .* 0"),
        (DataScaleRegressor(restraint=0), "`restraint` must be > 0"),
        (DataScaleRegressor(floor=-2.0), "`floor` must be .* -2.0"),
    ],
    ids=str,
)
def test_bad_arguments(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(np.arange(8.0)[:, None], np.arange(8.0))


@pytest.mark.parametrize("model", ALL, ids=str)
def test_bad_data(model):
    x, y = np.arange(8.0)[:, None], np.arange(8.0)
    with pytest.raises(ValueError, match="at least one non-zero"):
        model.fit(x, y, sample_weight=np.zeros(8))
    for bad in (np.ones(7), -np.ones(8), np.full(8, np.nan)):
        with pytest.raises(ValueError, match="`sample_weight` must be finite"):
            model.fit(x, y, sample_weight=bad)


def test_the_scale_reads_x():
    """An outlier near the plane, in a region where all others are outliers."""
    x, y, slopes, out = contaminated(2, "spread", d=1)
    model = PredictedScaleRegressor().fit(x, y)
    at = np.array([[0.0], [5.0]])
    near = at @ slopes + 3 + 0.25
    scale = model.predict_scale(at, near)
    assert scale[1] > 1.5 * scale[0]


def test_a_far_target_has_no_pull():
    x, y, *_ = contaminated(6, "random", d=1)
    fits = []
    for far in (30.0, 3e6):
        y[0] = far
        fits.append(PredictedScaleRegressor().fit(x, y))
    assert fits[0].coef_ == pytest.approx(fits[1].coef_, abs=1e-3)
    assert np.isfinite(fits[1].scale_).all() and fits[1].scale_[0] > 1e6
