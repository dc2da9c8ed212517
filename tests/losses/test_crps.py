"""The continuous ranked probability score, against quadrature by SciPy."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy import integrate, special, stats

import keras_likelihood as kl
from keras_likelihood import likelihoods
from tests.autodiff import central_differences, gradients
from tests.contracts import as_numpy

CASES = {
    "normal": ({"scale": 0.7}, lambda m: stats.norm(m, 0.7)),
    "laplace": ({"scale": 0.7}, lambda m: stats.laplace(m, 0.7)),
    "logistic": ({"scale": 0.7}, lambda m: stats.logistic(m, 0.7)),
    "student_t": (
        {"df": 2.5, "scale": 0.7},
        lambda m: stats.t(2.5, m, 0.7),
    ),
    "log_normal": (
        {"scale": 0.7},
        lambda m: stats.lognorm(0.7, scale=m * np.exp(-0.245)),
    ),
}
MEANS = np.array([0.5, 1.0, 2.0])
TARGETS = np.array([0.4, 3.0, 2.0])


def integral(law, y):
    """The integral of `(cdf - (y <= .))^2`."""
    below = integrate.quad(lambda x: law.cdf(x) ** 2, -np.inf, y)[0]
    return below + integrate.quad(lambda x: law.sf(x) ** 2, y, np.inf)[0]


@pytest.mark.parametrize("name", CASES)
def test_closed_forms_match_quadrature(name, double_precision):
    parameters, law = CASES[name]
    made = likelihoods.get(name)
    expected = [
        integral(law(m), y) for m, y in zip(MEANS, TARGETS, strict=True)
    ]
    found = made(ops.convert_to_tensor(MEANS[:, None]), **parameters)
    np.testing.assert_allclose(
        as_numpy(found.crps(TARGETS))[:, 0], expected, rtol=1e-6
    )


@pytest.mark.parametrize("name", CASES)
def test_gradients_match_differences(name, double_precision):
    parameters, _ = CASES[name]
    made = likelihoods.get(name)
    arrays = [np.full((3, 1), v) for v in parameters.values()]

    def crps(prediction, *values):
        names = dict(zip(parameters, values, strict=True))
        return made(prediction, **names).crps(TARGETS + 0.01)

    inputs = MEANS[:, None].copy(), *arrays
    for mine, oracle in zip(
        gradients(crps, *inputs),
        central_differences(crps, *inputs),
        strict=True,
    ):
        np.testing.assert_allclose(mine, oracle, rtol=1e-5, atol=1e-7)


def test_a_mixture_is_scored_by_its_quantiles():
    mixture = likelihoods.get("mixture(normal,components=2)")
    made = mixture(
        np.zeros((1, 1), "float32"),
        logit=(0.0, 1.0),
        offset=(-1.0, 2.0),
        scale=(0.5, 1.0),
    )
    weights = special.softmax([0.0, 1.0])
    centre = weights @ [-1.0, 2.0]
    parts = stats.norm([-1.0 - centre, 2.0 - centre], [0.5, 1.0])

    def square(x):
        return (weights @ parts.cdf(x) - (x >= 0.3)) ** 2

    expected = integrate.quad(square, -12, 12, points=[0.3])[0]
    found = as_numpy(made.crps(np.array([0.3])))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_it_trains_and_survives_saving(rng, tmp_path):
    inputs = keras.Input((2,))
    model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1)(inputs))
    loss = kl.losses.CRPS(likelihoods.Normal)
    model.compile(
        "sgd",
        loss=loss,
        metrics=[kl.metrics.ContinuousRankedProbabilityScore()],
    )
    x = rng.normal(size=(8, 2)).astype("float32")
    y = x[:, 0]
    model.fit(x, y, verbose=0)
    values = model.evaluate(x, y, verbose=0)
    expected = np.mean(as_numpy(model.predict_distribution(x).crps(y)))
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(
        again.evaluate(x, y, verbose=0), values, rtol=1e-5
    )


@pytest.mark.parametrize("name", ["poisson", "softmax", "censored(normal)"])
def test_other_targets_are_refused(name):
    with pytest.raises(ValueError, match="continuous likelihood.*Received"):
        kl.losses.CRPS(name)
