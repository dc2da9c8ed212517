"""Quantiles, ordered classes and additional zeros: oracles and use."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import integrate, special, stats

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.likelihoods import parametrized
from tests.autodiff import (
    central_differences,
    gradients,
    values_and_gradients,
)
from tests.contracts import EAGERLY, as_numpy, assert_equal_outputs

LEVELS = (0.1, 0.5, 0.8)
QUANTILES = likelihoods.Quantiles(LEVELS)


def asymmetric_laplace_nll(y, q, t, scale):
    loss = np.maximum(t * (y - q), (t - 1) * (y - q))
    return loss / scale + np.log(scale) - np.log(t * (1 - t))


def test_quantiles_nll_is_the_mean_asymmetric_laplace(rng, double_precision):
    q = np.sort(rng.normal(size=(6, 3)))
    scale = rng.uniform(0.5, 2, size=(6, 1))
    y = rng.normal(size=6)
    found = QUANTILES(ops.convert_to_tensor(q), scale=scale)
    expected = asymmetric_laplace_nll(y[:, None], q, np.array(LEVELS), scale)
    for target in (y, y[:, None]):
        np.testing.assert_allclose(
            as_numpy(found.nll(target)), expected.mean(axis=1)
        )
    with pytest.raises(ValueError, match=r"\(6, 1\). Received"):
        found.nll(q)
    # A single level is a density.
    density = integrate.quad(
        lambda y: np.exp(-asymmetric_laplace_nll(y, 0.3, 0.2, 0.7)),
        -200,
        200,
        points=[0.3],
    )[0]
    np.testing.assert_allclose(density, 1, rtol=1e-6)


def test_quantiles_join_into_a_distribution(rng, double_precision):
    # The second row crosses and is sorted.
    q = np.array([[-1.0, 0.5, 2.0], [1.0, -1.0, 0.5], [0.0, 0.0, 1.0]])
    found = QUANTILES(ops.convert_to_tensor(q), scale=0.7)
    for i, level in enumerate(LEVELS):
        np.testing.assert_allclose(
            as_numpy(found.quantile(level))[:, 0], np.sort(q)[:, i], atol=1e-12
        )
    p = rng.uniform(0.001, 0.999, size=(2, 50))
    rows = QUANTILES(ops.convert_to_tensor(np.repeat(q[:2], 50, axis=0)))
    p = p.reshape(-1, 1)
    again = rows.cdf(rows.quantile(ops.convert_to_tensor(p)))
    np.testing.assert_allclose(as_numpy(again), p, rtol=1e-7)
    low, high = found.interval(0.6)
    share = as_numpy(found.cdf(high)) - as_numpy(found.cdf(low))
    np.testing.assert_allclose(share[:2], 0.6)
    p = (np.arange(20_000)[:, None] + 0.5) / 20_000
    many = QUANTILES(ops.convert_to_tensor(np.repeat(q[:1], 20_000, 0)))
    many = as_numpy(many.quantile(ops.convert_to_tensor(p)))
    mean = as_numpy(QUANTILES(ops.convert_to_tensor(q[:1])).mean())
    np.testing.assert_allclose(mean, many.mean(), rtol=2e-3)
    draw = as_numpy(found.sample(2000, seed=1))
    assert draw.shape == (2000, 3, 1)
    np.testing.assert_allclose((draw < 2.0).mean(axis=0)[0], 0.8, atol=0.03)


def test_quantiles_are_checked():
    for bad in ((), (0.5, 0.5), (0.9, 0.1), (0.0, 0.5), (0.5, 1.0)):
        with pytest.raises(ValueError, match="`levels`.*Received"):
            likelihoods.Quantiles(bad)
    with pytest.raises(ValueError, match="length 3, one per level.*Received"):
        QUANTILES(np.zeros((4, 2), "float32"))


def ordinal_probabilities(score, gaps):
    cuts = np.concatenate([[0.0], np.cumsum(gaps)])
    cuts -= cuts[-1] / 2
    up_to = special.expit(cuts - score[..., None])
    up_to = np.concatenate([up_to, np.ones_like(up_to[..., :1])], axis=-1)
    return np.diff(up_to, axis=-1, prepend=0)


def test_ordinal_matches_the_oracle(rng, double_precision):
    score = rng.normal(size=(20, 2)) * 3
    gaps = np.array([0.5, 1.3, 2.0])
    p = ordinal_probabilities(score, gaps)
    found = likelihoods.Ordinal(5)(
        ops.convert_to_tensor(score), gaps=tuple(gaps)
    )
    np.testing.assert_allclose(as_numpy(found.class_probabilities()), p)
    for k in range(5):
        y = np.full(score.shape, float(k))
        np.testing.assert_allclose(as_numpy(found.nll(y)), -np.log(p[..., k]))
        cumulative = p[..., : k + 1].sum(axis=-1)
        np.testing.assert_allclose(as_numpy(found.cdf(y + 0.4)), cumulative)
    np.testing.assert_allclose(as_numpy(found.mean()), p @ np.arange(5))
    assert np.all(as_numpy(found.cdf(0 * score - 1)) == 0)
    for level in (0.02, 0.5, 0.99):
        quantile = (p.cumsum(axis=-1)[..., :-1] < level).sum(axis=-1)
        np.testing.assert_array_equal(as_numpy(found.quantile(level)), quantile)
    draw = as_numpy(found.sample(4000, seed=1))
    np.testing.assert_allclose(draw.mean(axis=0), p @ np.arange(5), atol=0.15)


def test_variance_of_classes_one_of_which_is_almost_certain():
    score = np.float32([[-18.0], [18.0]])
    found = likelihoods.Ordinal(4)(score, gaps=[1.0, 1.0]).variance()
    above = 1 / (1 + np.exp(18.0 + np.array([-1, 0, 1])))
    expected = np.sum(above * [1, 3, 5]) - np.sum(above) ** 2
    np.testing.assert_allclose(as_numpy(found)[:, 0], expected, rtol=1e-4)


def test_ordinal_gaps_may_differ_by_unit_and_example(rng, double_precision):
    score = rng.normal(size=(3, 2))
    gaps = rng.uniform(0.5, 2.0, size=(3, 2, 2))
    found = likelihoods.Ordinal(4)(
        ops.convert_to_tensor(score),
        gaps=ops.convert_to_tensor(gaps.reshape(3, 4)),
    )
    p = as_numpy(found.class_probabilities())
    for i, j in np.ndindex(3, 2):
        expected = ordinal_probabilities(score[i, j], gaps[i, j])
        np.testing.assert_allclose(p[i, j], expected)


def test_ordinal_information_and_gradients(rng, double_precision):
    score = rng.normal(size=(4, 1)) * 2
    gaps = rng.uniform(0.5, 2.0, size=(4, 2))
    made = likelihoods.Ordinal(4)
    p = as_numpy(
        made(ops.convert_to_tensor(score), gaps=gaps).class_probabilities()
    )
    total = 0
    for k in range(4):
        y = np.full((4, 1), float(k))

        def nll(score, gaps, y=y):
            return made(score, gaps=gaps).nll(y)

        found = gradients(nll, score, gaps)
        for mine, oracle in zip(
            found, central_differences(nll, score, gaps), strict=True
        ):
            np.testing.assert_allclose(mine, oracle, rtol=1e-5, atol=1e-7)
        total = total + p[..., k] * found[0] ** 2
    information = made(ops.convert_to_tensor(score), gaps=gaps).information()
    np.testing.assert_allclose(as_numpy(information), total, rtol=1e-6)


def test_ordinal_targets_and_classes_are_checked():
    made = likelihoods.Ordinal(4)
    made.check_targets(np.array([[0], [3]]), (None, 1))
    for bad in (-1, 4, 1.5, np.nan):
        with pytest.raises(ValueError, match="0 to 3. Received"):
            made.check_targets(np.array([[0.0], [bad]]), (None, 1))
        scored = made(np.zeros((1, 1), "float32")).nll(np.array([[bad]]))
        assert np.isnan(as_numpy(scored)).all()
    for bad in (2, 3.5):
        with pytest.raises(ValueError, match="`classes`.*Received"):
            likelihoods.Ordinal(bad)


@pytest.mark.few(1)
@pytest.mark.parametrize("inner", ["poisson", "negative_binomial"])
def test_zero_inflation_matches_the_oracle(inner, rng, double_precision):
    prediction = rng.uniform(0.2, 6, size=(30, 1))
    zero = rng.uniform(0.05, 0.6, size=(30, 1))
    mean = prediction / (1 - zero)
    values = {"dispersion": 0.7} if inner == "negative_binomial" else {}
    oracle = stats.poisson(mean)
    if values:
        oracle = stats.nbinom(1 / 0.7, 1 / (1 + 0.7 * mean))
    found = likelihoods.ZeroInflated(inner)(
        ops.convert_to_tensor(prediction), zero_probability=zero, **values
    )
    counts = np.arange(300)
    pmf = (1 - zero) * oracle.pmf(counts) + zero * (counts == 0)
    np.testing.assert_allclose(pmf @ counts, prediction[:, 0], rtol=1e-6)
    for k in (0, 1, 5):
        y = np.full((30, 1), float(k))
        np.testing.assert_allclose(
            as_numpy(found.nll(y)), -np.log(pmf[:, k : k + 1]), rtol=1e-9
        )
        np.testing.assert_allclose(
            as_numpy(found.cdf(y))[:, 0], pmf[:, : k + 1].sum(axis=1)
        )
    for p in (0.3, 0.9):
        quantile = (pmf.cumsum(axis=1) < p).sum(axis=1)
        np.testing.assert_array_equal(
            as_numpy(found.quantile(p))[:, 0], quantile
        )
    variance = pmf @ counts**2 - (pmf @ counts) ** 2
    np.testing.assert_allclose(as_numpy(found.variance())[:, 0], variance)
    draw = as_numpy(found.sample(3000, seed=2))
    spread = 4 * np.sqrt(variance / 3000)
    assert np.all(np.abs(draw.mean(axis=0)[:, 0] - prediction[:, 0]) < spread)
    (score,) = gradients(
        lambda m: likelihoods.ZeroInflated(inner)(
            m, zero_probability=zero[0, 0], **values
        ).nll(counts[:, None].astype("float64")),
        np.full((300, 1), prediction[0, 0]),
    )
    np.testing.assert_allclose(
        as_numpy(found.information())[0, 0],
        pmf[0] @ score[:, 0] ** 2,
        rtol=1e-6,
    )


def test_zero_inflation_is_for_counts():
    for bad in ("normal", "zero_inflated(poisson)"):
        with pytest.raises(ValueError, match="counts.*Received"):
            likelihoods.ZeroInflated(bad)
    for bad in (0.0, 1.0, 1.5):
        with pytest.raises(ValueError, match="`zero_probability` must be > 0"):
            kl.losses.ZeroInflatedLoss(zero_probability=bad)


EXTREMES = {
    "ordinal(5)": lambda rng, e: (e * rng.choice([-1, 1], e.shape), (3,)),
    "quantiles([0.1,0.9])": lambda rng, e: (
        rng.choice([-1, 1], (len(e), 2)) * np.repeat(e, 2, axis=1),
        (1,),
    ),
    "zero_inflated(poisson)": lambda rng, e: (e, (1,)),
    "zero_inflated(negative_binomial)": lambda rng, e: (e, (1, 1)),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", EXTREMES)
def test_nothing_is_nan(name, dtype, rng):
    """For 1e5 inputs, most of them far outside of the usual range."""
    likelihood = likelihoods.get(name)
    size = np.exp(rng.uniform(-20, 20, size=(100_000, 1)))
    prediction, widths = EXTREMES[name](rng, size)
    parameters = [
        as_numpy(
            p.constraint(
                ops.convert_to_tensor(
                    rng.uniform(-15, 15, size=(100_000, w)).astype("float32")
                )
            )
        )
        for p, w in zip(likelihood.parameters, widths, strict=True)
    ]
    y = np.floor(np.exp(rng.uniform(0, 12, size=(100_000, 1))) - 1)
    y = (y % 5 if name.startswith("ordinal") else y).astype("float32")
    names = [p.name for p in likelihood.parameters]

    def nll(prediction, *values):
        *values, y = values
        prediction, *values = (
            ops.cast(v, dtype) for v in (prediction, *values)
        )
        made = likelihood(prediction, **dict(zip(names, values, strict=True)))
        return ops.cast(made.nll(y), "float32")

    arrays = [prediction.astype("float32"), *parameters]
    found, slopes = values_and_gradients(nll, *arrays, given=[y])
    assert not np.any(np.isnan(found))
    for gradient in slopes:
        assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize(
    "loss",
    [
        kl.losses.QuantilesLoss((0.2, 0.9), scale=0.7, reduction="sum"),
        kl.losses.OrdinalLoss(4, gaps=(0.5, 2.0), name="mine"),
        kl.losses.ZeroInflatedLoss(
            "negative_binomial", zero_probability=0.4, dispersion=0.5
        ),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_losses_survive_their_config(loss):
    config = keras.saving.serialize_keras_object(loss)
    again = keras.saving.deserialize_keras_object(config)
    assert again.likelihood is loss.likelihood and again.name == loss.name
    y = np.array([[1.0], [0.0]], "float32")
    prediction = np.array([[0.3, 1.0], [0.2, 2.0]], "float32")
    if not isinstance(loss, kl.losses.QuantilesLoss):
        prediction = prediction[:, :1]
    first, second = (
        as_numpy(loss(y, prediction)),
        as_numpy(again(y, prediction)),
    )
    np.testing.assert_array_equal(first, second)
    expected = as_numpy(loss.distribution(prediction).nll(y))
    total = expected.sum() if loss.reduction == "sum" else expected.mean()
    np.testing.assert_allclose(first, total, rtol=1e-6)


@pytest.fixture
def forget_what_was_made():
    """Forgets the classes created so far, as in a new process."""
    before = dict(parametrized._MADE)
    yield parametrized._MADE.clear
    parametrized._MADE.update(before)


def test_a_saved_model_finds_its_likelihoods_by_name(
    rng, tmp_path, forget_what_was_made
):
    inputs = keras.Input((2,))
    outputs = {
        "q": kl.layers.QuantilesHead((0.05, 0.5, 0.95))(inputs),
        "n": kl.layers.LikelihoodHead("zero_inflated(poisson)", 1)(inputs),
        "o": keras.layers.Dense(1)(inputs),
    }
    model = kl.LikelihoodModel(inputs, outputs)
    loss = {
        "q": kl.losses.QuantilesLoss((0.05, 0.5, 0.95)),
        "n": kl.losses.ZeroInflatedLoss(),
        "o": kl.losses.OrdinalLoss(classes=5),
    }
    model.compile("sgd", loss=loss, run_eagerly=EAGERLY)
    x = rng.normal(size=(8, 2)).astype("float32")
    count = rng.poisson(2, size=(8, 1)).astype("float32")
    model.train_on_batch(x, {"q": x[:, 0], "n": count, "o": count % 5})
    quantiles, scale = model(10 * x)["q"]
    assert np.all(np.diff(as_numpy(quantiles), axis=1) >= 0)
    assert tuple(scale.shape) == (8, 1)
    found = model.predict_distribution(x)
    low, high = (as_numpy(end) for end in found["q"].interval(0.9))
    np.testing.assert_allclose(
        low, as_numpy(model(x)["q"][0])[:, :1], rtol=1e-5
    )
    model.save(tmp_path / "m.keras")
    forget_what_was_made()
    again = keras.models.load_model(tmp_path / "m.keras")
    assert_equal_outputs(as_numpy(model(x)), as_numpy(again(x)), rtol=1e-6)
    for key in outputs:
        made, found = model.loss[key], again.loss[key]
        assert made.likelihood.name() == found.likelihood.name()
        assert made.likelihood is not found.likelihood
        values = made.parameter_values()
        for name, value in found.parameter_values().items():
            np.testing.assert_allclose(value, values[name], rtol=1e-6)
