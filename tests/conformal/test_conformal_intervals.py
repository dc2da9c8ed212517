"""Conformal intervals of regressors have their coverage."""

import keras
import numpy as np
import pytest
from scipy import stats

import keras_likelihood as kl
from keras_likelihood.conformal import ConformalIntervals
from keras_likelihood.conformal.intervals import (
    ConformalDistribution,
    interval_scores,
)
from keras_likelihood.conformal.scores import CalibrationScores
from keras_likelihood.recalibration import regression

pytestmark = pytest.mark.usefixtures("step_by_step")


def covered_by_chance(sets, size, calibration, coverage):
    """Range of hits of an exact guarantee, with probability 1 - 1e-6.

    There are `sets` pairs of a calibration and a test set. The number of hits
    is beta-binomial in each test set, and their sum is approximately
    normal.
    """
    rank = int(np.ceil((calibration + 1) * coverage - 1e-9))
    law = stats.betabinom(size, rank, calibration + 1 - rank)
    spread = 4.9 * law.std() * np.sqrt(sets)
    return law.mean() * sets - spread, law.mean() * sets + spread


@pytest.mark.parametrize("coverage", [0.5, 0.9])
@pytest.mark.parametrize("wrong", [0.1, 1.0, 30.0])
def test_coverage_is_exact_for_any_scale(coverage, wrong, rng):
    """The coverage holds however wrong the scale and the tails are."""
    sets, calibration, size = 200, 60, 50
    rows = calibration + size
    scale = np.exp(rng.normal(size=(rows, sets)))
    y = 5 + scale * rng.standard_t(2, size=(rows, sets))
    law = kl.likelihoods.Normal(
        np.full((rows, sets), 5.0, "float32"),
        scale=(wrong * scale).astype("float32"),
    )
    # Every column is a separate calibration, like several outputs.
    scores = interval_scores(law, y)
    fitted = CalibrationScores.of(scores[:calibration])
    lower, upper = ConformalDistribution(law, fitted).interval(coverage)
    inside = (y >= lower) & (y <= upper)
    low, high = covered_by_chance(sets, size, calibration, coverage)
    assert low <= inside[calibration:].sum() <= high


def test_predicted_quantiles_keep_the_coverage(rng):
    """Conformalised quantile regression, with wrong quantiles."""
    levels, rows = (0.05, 0.5, 0.95), 4000
    spread = np.exp(rng.normal(size=rows))
    y = spread * rng.standard_t(3, size=rows)
    quantiles = spread[:, None] * np.array([-0.3, 0.0, 0.3])
    law = kl.likelihoods.Quantiles(levels=levels)(
        quantiles.astype("float32"), scale=0.1
    )
    half = rows // 2
    first = type(law)(law.prediction[:half], scale=0.1)
    fitted = ConformalIntervals().fit_distribution(first, y[:half, None])
    lower, upper = fitted.calibrate(law).interval(0.9)
    assert lower.shape == (rows, 1)
    y = y[:, None]
    inside = ((lower <= y) & (y <= upper))[half:].sum()
    low, high = covered_by_chance(1, half, half, 0.9)
    assert low <= inside <= high


def test_ties_and_gross_outliers_keep_the_coverage(rng):
    """Rounded targets have equal scores, and some are extreme outliers."""
    sets, rows = 100, 40
    y = np.round(rng.normal(size=(rows, sets)))
    y[rng.random(y.shape) < 0.3] *= 1e6
    zero = np.zeros_like(y, "float32")
    for law in (
        kl.likelihoods.Normal(zero, scale=0.01),
        kl.likelihoods.Laplace(zero, scale=3.0),
    ):
        fitted = CalibrationScores.of(interval_scores(law, y)[:20])
        for coverage in (0.6, 0.9):
            lower, upper = ConformalDistribution(law, fitted).interval(coverage)
            inside = ((y >= lower) & (y <= upper))[20:].sum()
            low, _ = covered_by_chance(sets, 20, 20, coverage)
            assert inside >= low


@pytest.mark.parametrize("name", ["normal", "laplace"])
def test_interval_of_a_score_holds_its_target(name, rng):
    """Rounding of cdf and quantile does not exclude targets of equal score."""
    y = 1000 + 3 * rng.standard_t(1.5, size=(400, 1)).astype("float32")
    y[:3] = [[1e6], [-1e30], [1000]]
    law = kl.likelihoods.get(name)(np.full_like(y, 1000.0), scale=3.0)
    scores = interval_scores(law, y)
    assert len(np.unique(scores)) > 380 and scores[1] == scores.max()
    each = ConformalDistribution(
        law,
        CalibrationScores(scores, list(range(400)), [1] * 400),
        np.arange(400),
    )
    lower, upper = each.interval(0.5)
    assert ((lower <= y) & (y <= upper)).all()
    width = (upper - lower)[3:]
    assert (width <= 1.002 * 2 * np.abs(y[3:] - 1000) + 0.01).all()


def test_too_few_examples_say_how_many_are_needed():
    fitted = ConformalIntervals().fit_arrays(np.zeros(8), np.arange(8.0))
    for coverage, needed in ((0.9, 9), (0.95, 19)):
        with pytest.raises(ValueError, match=rf"at least {needed} .*: 8"):
            fitted.calibrate(np.zeros(2)).interval(coverage)
    lower, upper = fitted.calibrate(np.zeros(2)).interval(8 / 9)
    np.testing.assert_allclose(upper, 7, rtol=1e-3)
    np.testing.assert_allclose(lower, -7, rtol=1e-3)


def test_groups_have_widths_of_their_own(rng):
    names = np.array(["calm", "wild"])[(np.arange(400) % 4 == 0).astype(int)]
    y = np.where(names == "wild", 10.0, 1.0) * rng.normal(size=400)
    fitted = ConformalIntervals().fit_arrays(np.zeros(400), y, groups=names)
    law = fitted.calibrate(np.zeros(2), groups=["wild", "calm"])
    lower, upper = law.interval(0.8)
    for row, name in enumerate(["wild", "calm"]):
        found = np.sort(np.abs(y[names == name]))
        rank = int(np.ceil((len(found) + 1) * 0.8))
        assert upper[row] == pytest.approx(found[rank - 1], rel=1e-3)
        assert lower[row] == pytest.approx(-found[rank - 1], rel=1e-3)
    with pytest.raises(ValueError, match=r"'calm', 'wild'.*\['mild'\]"):
        fitted.calibrate(np.zeros(1), groups=["mild"]).interval(0.8)
    with pytest.raises(
        ValueError, match="`groups` must be labels .* Received: None"
    ):
        fitted.calibrate(np.zeros(1)).interval(0.8)
    with pytest.raises(ValueError, match=r"at least 199 .*'wild'.*: 100"):
        fitted.calibrate(np.zeros(1), groups=["wild"]).interval(0.995)
    with pytest.raises(ValueError, match="one per example, of shape .400,."):
        ConformalIntervals().fit_arrays(np.zeros(400), y, groups=names[1:])


def test_bad_data_are_refused(rng):
    y = rng.normal(size=20)
    fit = ConformalIntervals().fit_arrays
    with pytest.raises(ValueError, match="finite"):
        fit(np.zeros(20), np.where(y > 1, np.nan, y))
    with pytest.raises(ValueError, match="NaN"):
        CalibrationScores.of(np.array([0.1, np.nan]))
    with pytest.raises(ValueError, match="conformal.ConformalSets"):
        law = kl.likelihoods.Softmax(np.zeros((20, 3)))
        ConformalIntervals().fit_distribution(law, y)
    with pytest.raises(ValueError, match="before `calibrate`"):
        ConformalIntervals().calibrate(y)
    with pytest.raises(ValueError, match="strictly between"):
        fit(np.zeros(20), y).calibrate(y).interval(1.0)


def test_scores_are_rounded_up(rng):
    values = np.concatenate([rng.normal(size=1000), [1e-30, 1e300, np.inf]])
    kept = CalibrationScores.of(values).values
    assert (kept >= np.sort(values)).all()
    np.testing.assert_allclose(kept[:1001], np.sort(values)[:1001], rtol=1e-6)


def test_scales_are_trusted_as_far_as_they_are_right(rng):
    """Right scales are kept, overfitted ones reduced; the guarantee holds."""
    scale = np.exp(rng.normal(size=2000))
    noise = np.exp(rng.normal(size=2000))
    held = []
    for given, low, high in ((scale, 0.9, 1), (scale * noise, 0.3, 0.7)):
        y = scale * rng.normal(size=2000)
        zero = np.zeros(1000)
        fitted = ConformalIntervals().fit_arrays(
            zero, y[:1000], scale=given[:1000]
        )
        assert low <= fitted.trust_ <= high
        assert fitted.report_["examples"] == 800
        width = {}
        for trust in ("auto", 0.0, 1.0):
            fitted = ConformalIntervals(trust=trust).fit_arrays(
                zero, y[:1000], scale=given[:1000]
            )
            law = fitted.calibrate(zero, scale=given[1000:])
            lower, upper = law.interval(0.9)
            width[trust] = np.mean(upper - lower)
            held.append(np.mean((lower <= y[1000:]) & (y[1000:] <= upper)))
        assert width["auto"] <= 1.1 * width[1.0]
    assert width["auto"] < 0.5 * width[1.0]
    assert 0.85 < min(held) and max(held) < 0.95
    with pytest.raises(ValueError, match=r"'auto' or in \[0, 1\].*2"):
        ConformalIntervals(trust=2)


def small_model(output):
    inputs = keras.Input((3,))
    outputs = output(keras.layers.Dense(4, activation="tanh")(inputs))
    return kl.LikelihoodModel(inputs, outputs)


def test_model_keeps_its_intervals_in_its_file(rng, tmp_path):
    x = rng.normal(size=(288, 3)).astype("float32")
    y = x[:, :1] + rng.standard_t(3, size=(288, 1))
    head = kl.layers.ScaleHead(1, likelihood="laplace")
    model = small_model(head)
    head.parameter_layers[0].kernel.assign(rng.normal(size=(4, 1)))
    model.compile("adam", loss=kl.losses.LaplaceLoss())
    groups = (x[:, 0] > 0).astype(int)
    fitted = ConformalIntervals().fit(
        model, x[:192], y[:192], groups=groups[:192]
    )
    assert fitted.report_["examples"] == 154 and fitted.trust_ < 0.6
    path = tmp_path / "conformal.keras"
    fitted.model.save(path)
    loaded = keras.saving.load_model(path)
    rest = {"groups": groups[192:]}
    for coverage in (0.5, 0.9):
        expected = fitted.interval(x[192:], coverage, **rest)
        found = loaded.interval(x[192:], coverage, **rest)
        law = model.predict_distribution(x[192:], verbose=0)
        arrays = fitted.calibrate(law, **rest).interval(coverage)
        for a, b, c in zip(expected, found, arrays, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
            np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-4)
    lower, upper = found
    assert lower.shape == (96, 1)
    used = loaded.predict_distribution(x, groups=groups).distribution
    for values in (used.prediction, used.scale, used.mean()):
        assert isinstance(values, np.ndarray)
    assert 0.8 < ((y[192:] >= lower) & (y[192:] <= upper)).mean() < 0.99
    np.testing.assert_allclose(
        loaded.predict(x, verbose=0)[0],
        model.predict(x, verbose=0)[0],
        rtol=1e-5,
    )


@pytest.mark.few(0)
def test_any_regressor_has_intervals(rng):
    """Stock models, learned scales, recalibrated models, batches."""
    x = rng.normal(size=(64, 3)).astype("float32")
    y = rng.normal(size=(64, 1))
    stock = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    learned = small_model(keras.layers.Dense(1))
    learned.compile("adam", loss=kl.losses.LaplaceLoss())
    shaped = regression.GlobalRescaling(likelihood="normal").fit(stock, x, y)
    for model in (stock, shaped.model, learned):
        fitted = ConformalIntervals().fit(model, x, y)
        lower, upper = fitted.interval(x, 0.8)
        assert np.mean((lower <= y) & (y <= upper)) >= 0.8
        # Their scale is the same for all inputs.
        np.testing.assert_allclose(np.ptp(upper - lower), 0, atol=1e-4)
    batches = [(x[:30], y[:30]), (x[30:], y[30:])]
    again = ConformalIntervals().fit(learned, batches)
    np.testing.assert_allclose(again.interval(x, 0.8)[0], lower, rtol=1e-4)
    with pytest.raises(ValueError, match="exchangeable"):
        weight = np.linspace(0, 1, 64)
        ConformalIntervals().fit(learned, [(x, y, weight)])


def test_intervals_of_counts_end_at_counts(rng):
    rate = np.exp(rng.normal(size=(400, 1))).astype("float32")
    y = rng.poisson(3 * rate).astype("float32")
    law = kl.likelihoods.Poisson(rate)
    fitted = ConformalIntervals().fit_distribution(law, y)
    lower, upper = fitted.calibrate(law).interval(0.9)
    assert 0.9 <= ((y >= lower) & (y <= upper)).mean() < 0.97
    held = fitted.scores_.threshold(0.9)
    if held < 0.998:
        assert (upper == np.round(upper)).all()


@pytest.mark.few(0)
@pytest.mark.parametrize("name", ["normal", "laplace", "student_t"])
def test_intervals_of_one_coverage_are_a_model_of_their_own(name, tmp_path):
    """An exported model contains the calibration."""
    random = np.random.default_rng(0)
    x = random.standard_normal((60, 2)).astype("float32")
    y = x[:, :1] + random.standard_t(2, size=(60, 1))
    inputs = keras.Input((2,))
    model = keras.Model(inputs, kl.layers.LikelihoodHead(name, 1)(inputs))
    model.set_weights([w + 0.3 for w in model.get_weights()])
    fitted = ConformalIntervals(trust=0.5).fit(model, x, y)
    for coverage in (0.6, 0.97):
        lower, upper = fitted.interval(x, coverage)
        fixed = fitted.model.at_coverage(coverage)
        fixed.save(tmp_path / "fixed.keras")
        for one in (fixed, keras.saving.load_model(tmp_path / "fixed.keras")):
            found = one.predict(x, verbose=0)
            np.testing.assert_allclose(found["lower"], lower, rtol=1e-4)
            np.testing.assert_allclose(found["upper"], upper, rtol=1e-4)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        fixed.export(str(tmp_path / "served"), verbose=False)
        loaded = tf.saved_model.load(str(tmp_path / "served"))
        served = loaded.serve(x)
        np.testing.assert_allclose(served["upper"], upper, rtol=1e-4)
    grouped = ConformalIntervals().fit(model, x, y, groups=np.arange(60) % 2)
    with pytest.raises(ValueError, match="groups"):
        grouped.model.at_coverage(0.9)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("count", [20, 400])
def test_equal_widths_follow_the_unit_of_the_targets(unit, count):
    random = np.random.default_rng(0)
    y = unit * random.normal(size=count)
    fitted = ConformalIntervals().fit_arrays(np.zeros(count), y)
    low, high = fitted.calibrate(np.zeros(3)).interval(0.9)
    rank = int(np.ceil((count + 1) * 0.9)) - 1
    expected = np.sort(np.abs(y))[rank]
    np.testing.assert_allclose(high, expected, rtol=0.01)
    np.testing.assert_allclose(low, -expected, rtol=0.01)


@pytest.mark.parametrize("delay", [0, 3])
def test_adaptive_intervals_keep_their_coverage_after_a_shift(rng, delay):
    """The noise of two series triples, and the first one also gets a trend."""
    batches, steps = (250, 8, 2), np.arange(2500)
    y = rng.standard_t(4, size=(2500, 2)) * np.where(steps < 500, 1, 3)[:, None]
    y[1500:, 0] += 0.005 * (steps[1500:] - 1500)
    zero = np.zeros((500, 2), "float32")
    before = kl.likelihoods.Normal(zero, scale=1.0)
    law = kl.likelihoods.Normal(zero[:8], scale=1.0)
    fitted = ConformalIntervals().fit_distribution(before, y[:500])
    adaptive = kl.conformal.AdaptiveIntervals(0.9, rate=0.02)
    y = y[500:].reshape(batches)
    lower, upper = np.empty((2, *batches))
    for t in range(250):
        lower[t], upper[t] = adaptive.interval(fitted.calibrate(law))
        if t >= delay:
            adaptive.update(y[t - delay])
    covered = (lower <= y) & (y <= upper)
    for part in (slice(0, 125), slice(125, None)):
        np.testing.assert_allclose(covered[part].mean((0, 1)), 0.9, atol=0.03)
    plain, above = fitted.calibrate(law).interval(0.9)
    assert ((plain <= y) & (y <= above)).mean() < 0.6
    # Infinite intervals are rare.
    assert np.isinf(upper).mean() < 0.15
    with pytest.raises(ValueError, match="called before `update`"):
        kl.conformal.AdaptiveIntervals().update(y[0])
    names = np.arange(500) % 2
    fitted.fit_distribution(before, y.reshape(-1, 2)[:500], groups=names)
    with pytest.raises(ValueError, match="`groups` must be None"):
        adaptive = kl.conformal.AdaptiveIntervals()
        adaptive.interval(fitted.calibrate(law, groups=names[:8]))
