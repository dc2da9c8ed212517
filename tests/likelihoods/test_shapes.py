"""Targets of every likelihood have the shape of its outcomes."""

import pathlib
import re

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.ensembles import EnsembleDistribution
from tests.contracts import LIKELIHOODS, predictions_for, targets_for
from tests.kinds import WRAPPED

NAMES = [
    *(v.name() for v in LIKELIHOODS),
    *WRAPPED,
]
ROWS = 5
OF_TARGETS = ("nll", "log_prob", "cdf", "cdf_below", "log_cdf", "log_survival")
OF_OUTCOMES = ("mean", "variance", "std", "sample")


def distribution_of(name, rng):
    """A distribution of one outcome for each row."""
    likelihood = likelihoods.get(name)
    units = 2 if likelihood.event_rank else 1
    values = rng.normal(size=(ROWS, units)).astype("float32")
    made = likelihood(
        ops.convert_to_tensor(predictions_for(likelihood, values))
    )
    return made, targets_for(likelihood, (ROWS, units), rng)


def call(made, method, *args):
    """The result as NumPy, or `None` if the likelihood has no such method."""
    try:
        result = getattr(made, method)(*args)
    except NotImplementedError:
        return None
    return ops.convert_to_numpy(result)


def unit_axis_may_be_omitted(made, y):
    """Targets `(n,)` and `(n, 1)` have equal results."""
    bounds = made.takes_bounds
    column = y if bounds or y.ndim == 2 else y[:, None]
    axis = -2 if bounds else -1
    if column.shape[axis] != 1:
        return
    for method in OF_TARGETS:
        first = call(made, method, column)
        second = call(made, method, np.squeeze(column, axis))
        if first is None:
            assert second is None
            continue
        assert first.shape == second.shape, method
        np.testing.assert_array_equal(first, second)


def results_have_the_shape_of_the_prediction(made, y):
    """`(n, units)` for outcomes, with `units` 1 for quantiles."""
    shape = (ROWS, made.prediction.shape[-1])
    if made.name().startswith(("quantiles", "ensemble_distribution(quantiles")):
        shape = (ROWS, 1)
    for method in OF_OUTCOMES:
        found = call(made, method)
        is_class = method == "sample" and "softmax" in made.name()
        if found is not None and not is_class:
            assert found.shape == shape, method
    for method in OF_TARGETS[2:]:
        found = call(made, method, y)
        assert found is None or found.shape == shape, method
    for p, leading in ((0.5, ()), ([0.2, 0.5, 0.8], (3,))):
        found = call(made, "quantile", p)
        assert found is None or found.shape == (*leading, *shape)
    nll = call(made, "nll", y)
    assert nll.shape == ((ROWS,) if made.event_rank else shape)


def other_shapes_raise(made, y):
    """Targets that cannot match raise instead of broadcasting."""
    wide = made.map_values(
        lambda v: ops.repeat(v[:, None], 3, axis=1) if len(v.shape) > 1 else v
    )
    for method in ("nll", "cdf"):
        if call(made, method, y) is None:
            continue
        with pytest.raises(ValueError, match="Received"):
            call(wide, method, y[:, None])
        with pytest.raises(ValueError, match="Received"):
            call(made, method, y[: ROWS - 1])


CONTRACTS = [
    unit_axis_may_be_omitted,
    results_have_the_shape_of_the_prediction,
    other_shapes_raise,
]


@pytest.mark.few(4)
@pytest.mark.parametrize("name", NAMES)
def test_every_likelihood_keeps_the_shapes(name, rng):
    for contract in CONTRACTS:
        contract(*distribution_of(name, rng))


@pytest.mark.parametrize(
    "name", ["normal", "poisson", "censored(normal)", "quantiles([0.2,0.7])"]
)
def test_ensembles_and_mixtures_keep_the_shapes(name, rng):
    made, y = distribution_of(name, rng)
    joint = EnsembleDistribution(name, components=2)
    member = ops.concatenate([made.prediction, made.prediction], axis=-1)
    parameters = {
        p.name: ops.broadcast_to(getattr(made, p.name), (ROWS, 1))
        for p in made.parameters
    }
    twice = {k: ops.concatenate([v, v], -1) for k, v in parameters.items()}
    joint = joint(made.prediction, member=member, **twice)
    for contract in CONTRACTS:
        contract(joint, y)
    np.testing.assert_allclose(
        call(joint, "nll", y), call(made, "nll", y), rtol=1e-5
    )


class Broken(likelihoods.Normal, registered=False):
    """Its methods do not match targets, as if they were not declared."""

    def nll(self, y):
        z = (ops.convert_to_tensor(y) - self.prediction) / self.scale
        return self.standard_nll(z) + ops.log(self.scale)

    nll.declare = None

    def mean(self):
        return self.prediction[..., 0]

    @classmethod
    def match_target(cls, y, prediction):
        return ops.convert_to_tensor(y, dtype=prediction.dtype)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_contracts_catch_a_broken_twin(contract, rng):
    zeros = np.zeros((ROWS, 1), "float32")
    made = Broken(ops.convert_to_tensor(zeros))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        contract(made, rng.normal(size=(ROWS, 1)).astype("float32"))


def test_the_standard_deviation_is_the_root_of_the_variance():
    made = likelihoods.Laplace(np.zeros((3, 1), "float32"), scale=2.0)
    np.testing.assert_allclose(made.std(), 2 * np.sqrt(2), rtol=1e-6)
    vector = likelihoods.MultivariateNormal(covariance="diagonal")
    made = vector(np.zeros((3, 2), "float32"), scale=(1.0, 3.0))
    np.testing.assert_allclose(made.std(), [[1, 3]] * 3, rtol=1e-6)


def test_the_quantile_guide_counts_each_target_once(capsys):
    page = pathlib.Path(__file__).parents[2] / "docs/guides/quantiles.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict = {}
    for block in blocks:
        if "matplotlib" not in block:
            exec(block, names)
    assert names["lower"].shape == names["upper"].shape == (500, 1)
    printed = capsys.readouterr().out
    raw, conformal = map(int, re.findall(r"(\d+)% of the new", printed))
    # The binomial standard error of 500 targets at 90 % is 1.3 %.
    assert 65 <= raw <= 97
    assert 85 <= conformal <= 96


@pytest.mark.parametrize("members", [1, 2])
def test_targets_given_to_fit_are_scored_by_the_distribution(members, rng):
    x = rng.normal(size=(20, 2)).astype("float32")
    y = x[:, 0] + 1

    def model():
        inputs = keras.Input((2,))
        return kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1)(inputs))

    found = model() if members == 1 else kl.Ensemble(model, members=2)
    found.compile("sgd", loss=kl.losses.NormalLoss())
    found.fit(x, y, verbose=0)
    made = found.predict_distribution(x, verbose=0)
    for method in ("nll", "cdf", "crps"):
        column = call(made, method, y[:, None])
        assert column.shape == (20, 1)
        np.testing.assert_array_equal(call(made, method, y), column)
