"""Truncated, rounded, transformed and mixed likelihoods against oracles."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import special, stats

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.likelihoods import (
    BoxCox,
    Mixture,
    Rounded,
    Transformed,
    Truncated,
)
from tests.autodiff import central_differences, gradients
from tests.batches import many_times
from tests.contracts import as_numpy


def column(values, dtype="float64"):
    return np.asarray(values, dtype).reshape(-1, 1)


def around(made, location, rows, **parameters):
    prediction = ops.full((rows, 1), location, dtype="float64")
    return made(prediction, **parameters)


def truncated_normal(low, high, location=0.4, scale=1.5):
    a, b = (low - location) / scale, (high - location) / scale
    return stats.truncnorm(a, b, loc=location, scale=scale)


ORACLES = {
    "truncated(normal,low=0.0)": (
        0.4,
        {"scale": 1.5},
        truncated_normal(0, 1e9),
    ),
    "truncated(normal,high=1.0)": (
        0.4,
        {"scale": 1.5},
        truncated_normal(-1e9, 1),
    ),
    "truncated(normal,low=0.0,high=3.0)": (
        0.4,
        {"scale": 1.5},
        truncated_normal(0, 3),
    ),
    "transformed(normal,log)": (
        2.0,
        {"scale": 0.7},
        stats.lognorm(0.7, scale=2),
    ),
    "transformed(logistic,log)": (2.0, {"scale": 0.2}, stats.fisk(5, scale=2)),
}
"""Location, parameters and distribution of SciPy; `fisk` is log-logistic."""


@pytest.mark.few(1)
@pytest.mark.parametrize("name", sorted(ORACLES))
def test_matches_the_oracle(name, double_precision):
    location, parameters, oracle = ORACLES[name]
    p = np.array([0.001, 0.1, 0.5, 0.8, 0.999])
    y = column(oracle.ppf(p))
    made = around(likelihoods.get(name), location, len(p), **parameters)
    np.testing.assert_allclose(
        as_numpy(made.nll(y)), -oracle.logpdf(y), rtol=1e-8
    )
    np.testing.assert_allclose(as_numpy(made.cdf(y))[:, 0], p, atol=1e-8)
    np.testing.assert_allclose(
        as_numpy(made.quantile(column(p))), y, rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
        as_numpy(made.log_survival(y)), oracle.logsf(y), rtol=1e-6
    )
    # Without the outer 3e-7 of the tails.
    np.testing.assert_allclose(as_numpy(made.mean()), oracle.mean(), rtol=1e-4)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "name",
    ["truncated(laplace,low=0.5)", "mixture(laplace,components=2)"]
    + ["transformed(laplace,box_cox(0.5))", "transformed(normal,logit)"]
    + ["mixture(gamma,components=2)"],
)
def test_samples_follow_the_cdf(name):
    likelihood = likelihoods.get(name)
    ones = ops.full((2000, 1), 0.7)
    made = (
        likelihood(ones, scale=0.6)
        if "gamma" not in name
        else (likelihood(ones))
    )
    draw = made.sample(seed=3)
    uniform = as_numpy(made.cdf(draw)).ravel()
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    assert tuple(made.sample(2, seed=3).shape) == (2, 2000, 1)


@pytest.mark.parametrize(
    "bijector, ends",
    [("log", (0, 60)), ("logit", (0, 1)), (BoxCox(0.5), (0, 30))]
    + [(BoxCox(0), (0, 60))],
)
def test_a_transformed_density_integrates_to_one(
    bijector, ends, double_precision
):
    y = column(np.linspace(*ends, 20001)[1:-1])
    made = around(Transformed("normal", bijector), 0.6, len(y), scale=0.5)
    density = np.exp(-as_numpy(made.nll(y)))[:, 0]
    assert density.sum() * (y[1, 0] - y[0, 0]) == pytest.approx(1, abs=1e-3)
    assert likelihoods.get(type(made).name()) is type(made)


@pytest.mark.few(0)
def test_information_by_its_definition(double_precision):
    zeros = ops.zeros((1, 2), dtype="float64")
    log = Transformed("normal", "log")(ops.exp(zeros + 0.3), scale=0.5)
    np.testing.assert_allclose(
        as_numpy(log.information()), np.exp(-0.6) / 0.25, rtol=1e-9
    )
    # 1 - variance-like terms: d nll / d prediction = mean - y, for scale 1.
    cut = Truncated("normal", low=0.0)(zeros)
    np.testing.assert_allclose(
        as_numpy(cut.information()), truncated_normal(0, 99, 0, 1).var(), 1e-3
    )
    alike = Mixture("normal", components=2)(zeros, offset=0.0, scale=2.0)
    np.testing.assert_allclose(as_numpy(alike.information()), 0.25, rtol=1e-4)


def test_truncation_far_out_in_the_tail():
    made = Truncated("normal", low=0.0)(np.full((3, 1), -30, "float32"))
    y = column([0.0, 0.05, 0.2], "float32")
    oracle = truncated_normal(0, np.inf, -30, 1)
    expected = -oracle.logpdf(y.astype("float64"))
    np.testing.assert_allclose(as_numpy(made.nll(y)), expected, rtol=1e-4)
    narrow = Truncated("normal", low=0.0, high=1e-3)(
        np.zeros((1, 1), "float32")
    )
    nll = as_numpy(narrow.nll(np.full((1, 1), 5e-4, "float32")))
    np.testing.assert_allclose(nll, np.log(1e-3), rtol=1e-5)
    draw = as_numpy(
        Truncated("normal", low=0.0)(np.full((9, 1), -5.0)).sample()
    )
    assert np.all(draw >= 0) and np.all(draw < 3)


def test_truncated_counts_include_both_ends():
    made = Truncated("poisson", low=1, high=3)(np.full((5, 1), 2, "float32"))
    y = column([0, 1, 2, 3, 4], "float32")
    p = stats.poisson(2).pmf([1, 2, 3])
    found = as_numpy(made.nll(y))[:, 0]
    assert np.isnan(found[[0, 4]]).all()
    np.testing.assert_allclose(found[1:4], -np.log(p / p.sum()), rtol=1e-5)
    cdf = as_numpy(made.cdf(y))[:, 0]
    expected = [0, *np.cumsum(p / p.sum()), 1]
    np.testing.assert_allclose(cdf, expected, atol=1e-5)
    # Whole numbers with a quantile in closed form.
    grid = Truncated(Rounded("normal"), low=1, high=3)
    draw = as_numpy(grid(np.full((5, 1), 2, "float32")).sample(50, seed=1))
    assert set(np.unique(draw)) == {1, 2, 3}


@pytest.mark.parametrize("step", [0.5, 2.0])
def test_rounded_bins(step):
    grid = column(step * np.arange(-8, 9), "float32")
    made = Rounded("normal", step=step)(np.full_like(grid, 0.4), scale=1.5)
    oracle = stats.norm(0.4, 1.5)
    low, high = oracle.cdf(grid - step / 2), oracle.cdf(grid + step / 2)
    above = oracle.sf(grid - step / 2) - oracle.sf(grid + step / 2)
    share = np.where(grid > 0, above, high - low)
    nll = as_numpy(made.nll(grid))
    np.testing.assert_allclose(np.exp(-nll), share, rtol=1e-4)
    np.testing.assert_allclose(as_numpy(made.cdf(grid)), high, atol=1e-6)
    np.testing.assert_allclose(as_numpy(made.cdf_below(grid)), low, atol=1e-6)
    draw = as_numpy(made.sample(seed=1))
    np.testing.assert_array_equal(draw, step * np.round(draw / step))
    median = as_numpy(made.quantile(0.5))
    np.testing.assert_array_equal(median, step * np.round(0.4 / step))
    # Only a density is unbounded: the probability of a bin is at most 1.
    sharp = Rounded("normal", step=step)(grid, scale=1e-6).nll(grid)
    np.testing.assert_allclose(as_numpy(sharp), 0, atol=1e-6)
    made.check_targets(grid, (None, 1))
    with pytest.raises(ValueError, match=f"multiples of {step}. Received"):
        made.check_targets(grid + 0.2, (None, 1))


def mixture_oracle(y, prediction, logit, offset, scale):
    weight = special.softmax(logit)
    mean = prediction + offset - np.sum(weight * offset)
    return weight, stats.norm(mean, scale)


def test_mixture_matches_the_oracle(double_precision):
    logit, offset = np.array([0.3, -1, 0.5]), np.array([-3, 0.2, 2])
    scale = np.array([0.5, 1, 2])
    y = column([-4.0, -0.5, 0.7, 5])
    made = around(
        Mixture("normal", components=3),
        0.4,
        4,
        logit=logit[None],
        offset=offset[None],
        scale=scale[None],
    )
    weight, oracle = mixture_oracle(y, 0.4, logit, offset, scale)
    expected = -np.log((weight * oracle.pdf(y)).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(as_numpy(made.nll(y)), expected, rtol=1e-9)
    cdf = (weight * oracle.cdf(y)).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(as_numpy(made.cdf(y)), cdf, rtol=1e-9)
    np.testing.assert_allclose(as_numpy(made.quantile(cdf)), y, atol=1e-8)
    np.testing.assert_allclose(as_numpy(made.log_cdf(y)), np.log(cdf), 1e-9)
    np.testing.assert_allclose(as_numpy(made.mean()), 0.4, rtol=1e-12)
    low, high = (as_numpy(x) for x in made.interval(0.8))
    share = as_numpy(made.cdf(high)) - as_numpy(made.cdf(low))
    np.testing.assert_allclose(share, 0.8, atol=1e-9)


@pytest.mark.few(0)
def test_mixture_gradients(double_precision):
    y = column([-4.0, 0.7, 5])
    rng = np.random.default_rng(0)
    arrays = [
        column([0.1, 0.5, -0.3]),
        *(rng.normal(size=(3, 2)) for _ in range(2)),
        np.exp(rng.normal(size=(3, 2))),
    ]

    def nll(prediction, logit, offset, scale):
        made = Mixture("normal", components=2)(
            prediction, logit=logit, offset=offset, scale=scale
        )
        return made.nll(y)

    for mine, slow in zip(
        gradients(nll, *arrays), central_differences(nll, *arrays), strict=True
    ):
        np.testing.assert_allclose(mine, slow, rtol=1e-4, atol=1e-6)

    def median(prediction):
        made = Mixture("normal", components=2)(prediction, logit=(0.0, 1.0))
        return made.quantile(0.5)

    # The quantile moves with the prediction.
    np.testing.assert_allclose(gradients(median, arrays[0])[0], 1, rtol=1e-6)


def test_mixture_of_positive_numbers_and_counts_keeps_the_mean():
    mean = np.full((2, 3), 2.5, "float32")
    for name in ("gamma", "log_normal", "poisson"):
        made = Mixture(name, components=3)(mean, offset=(-2.0, 0.5, 1.0))
        np.testing.assert_allclose(as_numpy(made.mean()), mean, rtol=1e-5)
        assert np.all(as_numpy(made.inner.prediction) > 0)
    made = Mixture(Rounded("normal"), components=2)(mean, offset=(-2.0, 3.0))
    median = as_numpy(made.quantile(0.5))
    np.testing.assert_array_equal(median, np.round(median))
    assert np.all(as_numpy(made.cdf(median)) >= 0.5)
    assert np.all(as_numpy(made.cdf(median - 1)) < 0.5)


def test_quantiles_of_a_mixture_that_underflow():
    kind = likelihoods.Mixture("gamma", components=2)

    def quantile(mean, shape):
        made = kind(mean, logit=[4.0, -0.3], offset=[7.0, -1.0], shape=shape)
        return made.quantile(np.float32([[5e-3]]))

    mean, shape = np.float32([[1e-6]]), np.float32([[0.05, 0.06]])
    found = as_numpy(quantile(mean, shape))
    assert 0 <= found < 1e-37
    assert np.all(np.isfinite(gradients(quantile, mean, shape)[0]))


def test_neighbours_of_a_large_number_by_a_root():
    """The map has all digits of its target."""
    kind = likelihoods.get("transformed(laplace,box_cox(0.5))")
    y = 1e6 + np.arange(1, 200.0)[:, None]
    found = kind(np.full_like(y, 1e6, "float32"), scale=0.02)
    found = as_numpy(found.nll(y.astype("float32")))
    apart = 2 * (np.sqrt(y) - 1e3)
    expected = apart / 0.02 + np.log(0.04) + 0.5 * np.log(y)
    np.testing.assert_allclose(found, expected, atol=0.01)


@pytest.mark.few(0)
def test_a_mixture_tells_two_answers_apart():
    """Targets are +x or -x: the mean is uninformative, the mixture is not."""
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 2, size=(256, 1)).astype("float32")
    y = x * rng.choice([-1, 1], size=(256, 1)).astype("float32")
    y = y + 0.1 * rng.normal(size=y.shape).astype("float32")
    inputs = keras.Input((1,))
    made = Mixture("normal", components=2)
    model = kl.LikelihoodModel(
        inputs, kl.layers.LikelihoodHead(made, 1)(inputs)
    )
    model.compile(
        keras.optimizers.Adam(0.05), loss=kl.losses.LikelihoodLoss(made)
    )
    history = model.fit(
        *many_times(10, x, y), batch_size=128, epochs=6, verbose=0
    ).history
    # The best normal has log(sd) + 1.42 = 1.84; two narrow ones 0.7 - 0.88.
    assert history["loss"][-1] < 0.3
    output = model.predict(x[:4], verbose=0)
    assert output.offset.shape == (4, 2) and output.logit.shape == (4, 2)
    places = model.predict_distribution(x[:4], verbose=0).inner.prediction
    np.testing.assert_allclose(
        np.abs(as_numpy(places)[:, 0]), np.repeat(x[:4], 2, 1), atol=0.3
    )


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Truncated("normal"), "`low` or `high`, and low < high"),
        (lambda: Truncated("normal", low=2, high=1), "low < high"),
        (lambda: Truncated("softmax", low=2), "single numbers"),
        (lambda: Rounded("normal", step=0), "step > 0"),
        (lambda: Rounded("poisson"), "continuous likelihood"),
        (lambda: Rounded("censored(normal)"), "outermost"),
        (lambda: Transformed("gamma", "log"), "real numbers"),
        (lambda: Transformed("normal", "cube"), "bijector.*'cube'"),
        (lambda: Transformed("normal", "box_cox"), "bijector.*'box_cox'"),
        (lambda: Transformed("normal", "box_cox(-1)"), ">= 0. Received: -1.0"),
        (lambda: Transformed("normal", BoxCox(np.inf)), ">= 0. Received: inf"),
        (
            lambda: Mixture("normal", components=1),
            "from 2 to 1000. Received: 1",
        ),
        (
            lambda: Mixture("normal", components=2.5),
            "from 2 to 1000. Received: 2.5",
        ),
        (
            lambda: Mixture("normal", components=20_000_000),
            "from 2 to 1000. Received: 20000000",
        ),
        (lambda: Mixture("beta"), "real or of positive"),
        (lambda: Mixture(Mixture("normal")), "scalar parameters"),
        (lambda: Mixture("bernoulli"), "single numbers"),
    ],
)
def test_what_cannot_be_made_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_impossible_targets():
    y = np.array([[-1.0], [0.5], [2.0]], "float32")
    zeros = np.full((3, 1), 0.5, "float32")
    for made, bad in [
        (Transformed("normal", "log"), [True, False, False]),
        (Transformed("normal", "logit"), [True, False, True]),
        (Truncated("normal", low=0, high=1), [True, False, True]),
    ]:
        nll = as_numpy(made(zeros).nll(y))[:, 0]
        np.testing.assert_array_equal(np.isnan(nll), bad)
        with pytest.raises(ValueError, match="Received: \\[-1.0"):
            made.check_targets(y, (None, 1))


def test_wrappers_wrap_each_other(double_precision):
    made = likelihoods.get("censored(mixture(normal,components=2))")
    prediction = ops.zeros((1, 1), dtype="float64")
    found = made(prediction, offset=(-1.0, 1.0)).nll(
        np.array([[[0.5, np.inf]]])
    )
    expected = -np.log(stats.norm([-1, 1]).sf(0.5).mean())
    np.testing.assert_allclose(as_numpy(found), expected, rtol=1e-9)
    made = likelihoods.get("truncated(transformed(normal,log),high=2.0)")
    oracle = stats.lognorm(1)
    nll = made(prediction + 1).nll(prediction + 1.5)
    expected = -oracle.logpdf(1.5) + oracle.logcdf(2)
    np.testing.assert_allclose(as_numpy(nll), expected, rtol=1e-9)
