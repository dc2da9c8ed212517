"""Distributions in common use, and inputs that are not numbers."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.ensembles import EnsembleDistribution
from tests.autodiff import gradients
from tests.contracts import LIKELIHOODS, as_numpy
from tests.kinds import WRAPPED

PREDICTION = np.array([[0.3], [0.6], [0.9]], "float32")
NAN = np.array([[np.nan], [0.5], [0.5]], "float32")
NAMES = [
    *(found.name() for found in LIKELIHOODS if not hasattr(found, "family")),
    *WRAPPED,
]
SCALAR = [name for name in NAMES if not likelihoods.get(name).event_rank]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name, prediction, values, method, expected",
    [
        (
            "transformed(student_t,log)",
            *(1.0, {"df": 4.0, "scale": 0.5}, "mean", np.inf),
        ),
        (
            "transformed(laplace,log)",
            *(2.0, {"scale": 1.0}, "mean", np.inf),
        ),
        ("robust_rho", 0.0, {"shape": 0.0}, "variance", np.inf),
        ("robust_rho", 0.0, {"shape": 0.05}, "variance", 1047.44),
        ("weibull", 1.0, {"shape": 30.0}, "variance", 0.00174461765),
        (
            "mixture(normal,components=2)",
            *(0.0, {"scale": 0.1, "offset": [-1.0, 1.0]}, "information", 100),
        ),
        (
            "mixture(normal,components=2)",
            0.0,
            {"logit": [3.0, 0.0], "offset": 0.0, "scale": [1.0, 0.02]},
            *("information", 48.76),
        ),
    ],
)
def test_known_numbers(name, prediction, values, method, expected):
    made = likelihoods.get(name)(
        np.full((1, 1), prediction, "float32"), **values
    )
    found = as_numpy(getattr(made, method)())
    np.testing.assert_allclose(found, expected, rtol=3e-4)


def test_the_nll_of_a_large_shape_and_of_infinity():
    rho = likelihoods.RobustRho(np.zeros((1, 1), "float32"), shape=20.0)
    nll = as_numpy(rho.nll(np.full((1, 1), 20, "float32")))
    np.testing.assert_allclose(nll, 4.1046854e13, rtol=1e-4)
    far = np.array([[-np.inf], [np.inf]], "float32")
    for name in ("normal", "laplace", "logistic", "student_t", "huber"):
        found = likelihoods.get(name)(0 * np.ones_like(far)).nll(far)
        assert np.all(as_numpy(found) == np.inf), name
    rho = likelihoods.RobustRho(np.zeros((2, 1), "float32"))
    assert np.all(as_numpy(rho.nll(far)) == np.inf)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_nan_in_nan_out(name):
    likelihood = likelihoods.get(name)
    made = likelihood(
        np.repeat(PREDICTION, 2 if likelihood.event_rank else 1, 1)
    )
    y = NAN[:, 0] if name.startswith(("softmax", "quantiles")) else NAN
    if likelihood.event_rank and y.ndim == 2:
        y = np.repeat(NAN, 2, axis=1)
    assert np.isnan(as_numpy(made.nll(y))[0]).all()
    with pytest.raises(ValueError, match=r"Received: \[.*nan"):
        likelihood.check_targets(y, tuple(made.prediction.shape))
    if "cdf" not in name and (not likelihood.event_rank or "quant" in name):
        for method in (made.cdf, made.cdf_below, made.log_cdf, made.quantile):
            found = as_numpy(method(y))
            assert np.isnan(found[0]).all(), method
            assert np.isfinite(found[1:]).all(), method


@pytest.mark.parametrize(
    "name", [n for n in NAMES if "censored" not in n and "softmax" not in n]
)
def test_infinite_targets_are_refused(name):
    likelihood = likelihoods.get(name)
    units = 2 if likelihood.event_rank else 1
    for end in (np.inf, -np.inf):
        with pytest.raises(ValueError, match="Received"):
            likelihood.check_targets(np.full((3, units), end), (3, units))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SCALAR)
def test_slices_levels_numbers_and_numpy(name):
    made = likelihoods.get(name)(PREDICTION)
    y = as_numpy(made.quantile(0.5))
    part = made[1:]
    for method in ("nll", "log_prob", "cdf"):
        whole = as_numpy(getattr(made, method)(y))
        np.testing.assert_allclose(
            as_numpy(getattr(part, method)(y[1:])), whole[1:], rtol=1e-6
        )
    np.testing.assert_array_equal(
        as_numpy(made.log_prob(y)), -as_numpy(made.nll(y))
    )
    levels = as_numpy(made.quantile([0.1, 0.9]))
    assert levels.shape == (2, 3, 1)
    for p, found in zip((0.1, 0.9), levels, strict=True):
        np.testing.assert_allclose(found, as_numpy(made.quantile(p)), rtol=1e-5)
    np.testing.assert_allclose(
        as_numpy(made.cdf(1.0)), as_numpy(made.cdf(np.ones((3, 1)))), rtol=1e-6
    )
    arrays = made.as_numpy()
    for found in (made, arrays):
        start = f"{type(made).__name__}(prediction=(3, 1), "
        assert repr(found).startswith(start)
    results = [arrays.mean(), arrays.variance(), *arrays.interval(0.8)]
    results += [arrays.quantile([0.1]), arrays.sample(2), arrays.nll(y)]
    results += [arrays.prediction, arrays[:1].cdf(0.5), arrays.cdf(y)]
    assert all(isinstance(found, np.ndarray) for found in results)
    assert np.isin(arrays.interval(0.8)[1] >= y, (True, False)).all()
    np.testing.assert_allclose(arrays.mean(), as_numpy(made.mean()), rtol=1e-6)


INF = np.inf


@pytest.mark.parametrize(
    "name, ends",
    [
        ("normal", (-INF, INF)),
        ("student_t", (-INF, INF)),
        ("robust_rho", (-INF, INF)),
        ("gamma", (0, INF)),
        ("poisson", (0, INF)),
        ("beta", (0, 1)),
        ("ordinal(4)", (0, 3)),
        ("truncated(gamma,high=3.0)", (0, 3)),
        ("truncated(rounded(normal,step=0.5),low=1.0)", (1, INF)),
        ("rounded(truncated(normal,low=0.7))", (1, INF)),
        ("mixture(poisson)", (0, INF)),
        ("transformed(normal,logit)", (0, 1)),
        ("censored(exponential)", (0, INF)),
    ],
)
def test_tails_and_quantiles_at_the_ends_of_the_support(name, ends):
    made = likelihoods.get(name)(PREDICTION).as_numpy()
    low, high = made.quantile([0.0, 1.0])
    np.testing.assert_array_equal(low, np.full_like(low, ends[0]))
    np.testing.assert_array_equal(high, np.full_like(high, ends[1]))
    for y, cdf in ((-INF, 0), (ends[0] - 1, 0), (ends[1] + 1, 1), (INF, 1)):
        np.testing.assert_array_equal(made.cdf(y), np.full_like(low, cdf))
        assert np.isfinite(made.log_cdf(y)).all()
        assert np.isfinite(made.log_survival(y)).all()


def test_truncated_bins_sum_to_one():
    name = "truncated(rounded(normal,step=0.5),low=1.0,high=2.0)"
    y = np.array([1.0, 1.5, 2.0], "float32")[:, None, None]
    nll = likelihoods.get(name)(PREDICTION[:1]).as_numpy().nll(y)
    np.testing.assert_allclose(np.exp(-nll).sum(axis=0), 1, rtol=1e-5)


def test_only_batch_axes_are_sliced():
    made = likelihoods.Normal(np.zeros((4, 2), "float32"), scale=0.5)
    assert tuple(made[0].prediction.shape) == (2,)
    with pytest.raises(IndexError, match="all axes but the last"):
        made[:, :1]


def test_results_of_vectors_and_ensembles_are_numpy():
    made = likelihoods.MultivariateNormal()(np.zeros((3, 2), "float32"))
    arrays = made.as_numpy()
    assert isinstance(arrays.marginal(0).mean(), np.ndarray)
    assert isinstance(arrays.scale_squared(), np.ndarray)
    members = np.array([[0.0, 1.0]] * 3, "float32")
    joint = EnsembleDistribution("normal", components=2)(
        np.full((3, 1), 0.5, "float32"), member=members
    ).as_numpy()
    assert isinstance(joint.epistemic, np.ndarray)
    levels = joint.quantile([0.1, 0.9])
    assert levels.shape == (2, 3, 1)
    expected = np.reshape([0.1, 0.9], (2, 1, 1)) + 0 * levels
    np.testing.assert_allclose(joint.cdf(levels), expected, rtol=1e-5)
    assert joint.cdf(0.5).shape == (3, 1)


@pytest.mark.parametrize(
    "name",
    ["student_t", "mixture(student_t,components=2)", "rounded(student_t)"]
    + ["censored(student_t)", "transformed(student_t,log)"],
)
def test_samples_take_a_seed_generator(name):
    made = likelihoods.get(name)(PREDICTION)
    seed = keras.random.SeedGenerator(3)
    first, second = (as_numpy(made.sample(seed=seed)) for _ in range(2))
    assert np.isfinite(first).all() and (first != second).any()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "outer", ["censored({})", "rounded({},step=0.5)", "truncated({},high=2.0)"]
)
def test_wrapped_truncation_has_finite_gradients(outer):
    name = outer.format("truncated(normal,low=0.0)")
    y = np.array([[0.5], [1.0], [1.5], [0.0]], "float32")
    prediction = np.array([[-1.0], [1.0], [-9.0], [-3.0]], "float32")

    def nll(prediction, scale):
        return likelihoods.get(name)(prediction, scale=scale).nll(y)

    found = gradients(nll, prediction, np.full_like(y, 0.5))
    assert all(np.isfinite(part).all() for part in found), found
    assert np.isfinite(as_numpy(nll(prediction, np.full_like(y, 0.5)))).all()


def test_a_file_cannot_ask_for_too_much():
    for name in (
        "mixture(normal,components=20000000)",
        "ordinal(20000000)",
        "multivariate_normal(covariance=low_rank,rank=20000000)",
    ):
        with pytest.raises(ValueError, match="to 1000. "):
            likelihoods.get(name)
    deep = "censored(" * 3000 + "normal" + ")" * 3000
    with pytest.raises(ValueError, match="must be"):
        likelihoods.get(deep)


@pytest.mark.parametrize(
    "name",
    ["multivariate_normal", "multivariate_student_t", "ordinal", "quantiles"]
    + ["zero_inflated", "mixture", "truncated", "transformed", "censored"],
)
def test_the_example_in_an_error_works(name):
    with pytest.raises(ValueError, match="such as") as error:
        likelihoods.get(name)
    example = str(error.value).split("such as '")[1].split("'. Rec")[0]
    assert likelihoods.get(example).name().startswith(name)


def test_coverage_of_censored_counts_is_that_of_counts():
    mean = np.full((400, 1), 3.0, "float32")
    y = stats.poisson(3).rvs((400, 1), random_state=1).astype("float32")
    inside = [
        float(
            kl.metrics.IntervalCoverage(0.8)(
                targets, likelihoods.get(name)(mean)
            )
        )
        for name, targets in (
            ("poisson", y),
            ("censored(poisson)", kl.censored(y, event=np.ones_like(y))),
        )
    ]
    lower, upper = likelihoods.Poisson(mean).as_numpy().interval(0.8)
    share = np.mean((y >= lower) & (y <= upper))
    np.testing.assert_allclose(inside, share, rtol=1e-5)


def test_draws_have_densities():
    made = likelihoods.Normal(PREDICTION, scale=2.0)
    draws = made.sample(5, seed=1)
    assert tuple(ops.shape(made.log_prob(draws))) == (5, 3, 1)
