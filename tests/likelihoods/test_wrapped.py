"""Common properties of all likelihoods made from arguments."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.likelihoods.output import distribution_of, split_output
from tests import contracts
from tests.autodiff import values_and_gradients
from tests.contracts import FEATURES, as_numpy
from tests.kinds import WRAPPED

every_kind = pytest.mark.parametrize("name", WRAPPED)
one_of_each_family = pytest.mark.parametrize(
    "name",
    {
        # The same step as with a negative binomial, but much faster.
        **{n.partition("(")[0]: n for n in reversed(WRAPPED)},
        "zero_inflated": "zero_inflated(poisson)",
    }.values(),
)
UNITS = 2
# Of bounds, of vectors for each number and of classes. The losses of the
# others are traced without their gradients, which takes a tenth of the time.
TRACED = ("censored", "mixture", "ordinal")
BASES = (
    likelihoods.Multivariate,
    likelihoods.Parametrized,
    likelihoods.Wrapper,
)


@functools.cache
def case(name, rows=6):
    """`(likelihood, y, prediction, parameters)`, parameters off default.

    It is created once for all tests, because JAX compiles its operations.
    """
    rng = np.random.default_rng(0)
    likelihood = likelihoods.get(name)
    values = rng.normal(size=(rows, UNITS)).astype("float32")
    prediction = contracts.predictions_for(likelihood, values)
    y = contracts.targets_for(likelihood, prediction.shape, rng)
    parameters = {}
    for p in likelihood.parameters:
        shape = likelihood.shape_of(p.name, prediction.shape, "element")
        start = np.resize(p.constraint.inverse(p.initial), shape)
        value = start + 0.3 * rng.normal(size=(rows, *shape))
        value = p.constraint(ops.convert_to_tensor(value.astype("float32")))
        parameters[p.name] = as_numpy(value)
    return likelihood, y, prediction, parameters


def test_every_family_has_a_kind():
    families = [
        found
        for found in (getattr(likelihoods, n) for n in likelihoods.__all__)
        if isinstance(found, type)
        and issubclass(found, likelihoods.Parametrized)
        and found not in BASES
    ]
    made = [likelihoods.get(name) for name in WRAPPED]
    for family in families:
        assert any(issubclass(m, family) for m in made), family


@every_kind
def test_name_and_targets(name):
    likelihood, y, prediction, _ = case(name)
    assert likelihood.name() == name
    likelihood.check_targets(y, prediction.shape)
    with pytest.raises(ValueError, match="Received"):
        likelihood.check_targets(np.full(y.shape, "a"), prediction.shape)
    with pytest.raises(ValueError, match="Received"):
        likelihood(prediction).nll(np.zeros((6, 7, 3), "float32"))


@pytest.mark.few(5)
@every_kind
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(name, dtype):
    """Samples, NLL and gradients are finite, and in the narrow dtype."""
    likelihood, y, prediction, parameters = case(name)
    names = list(parameters)

    def nll(prediction, *values):
        narrow = [ops.cast(v, dtype) for v in (prediction, *values)]
        made = likelihood(
            narrow[0], **dict(zip(names, narrow[1:], strict=True))
        )
        return ops.cast(made.nll(y), "float32")

    arrays = [prediction, *parameters.values()]
    found, slopes = values_and_gradients(nll, *arrays)
    assert np.all(np.isfinite(found))
    for gradient in slopes:
        assert np.all(np.isfinite(gradient))
    draw = likelihood(ops.cast(prediction, dtype)).sample(2, seed=1)
    assert keras.backend.standardize_dtype(draw.dtype) == dtype
    assert tuple(draw.shape)[0] == 2


@pytest.mark.few(4)
@every_kind
def test_loss_weights_and_head(name, rng):
    likelihood, y, prediction, parameters = case(name)
    y_pred = [prediction, *parameters.values()]
    loss = kl.losses.LikelihoodLoss(name, reduction="sum")
    contracts.sample_weight_counts_examples(loss, y, y_pred)
    maps = rng.normal(size=(4, 3, FEATURES)).astype("float32")
    for dimension in ("scalar", "element"):
        head = kl.layers.LikelihoodHead(name, UNITS, dimension=dimension)
        contracts.symbolic_and_eager_shapes_agree(head, maps)
        contracts.config_keeps_outputs(head, maps)
        first, found = split_output(as_numpy(head(maps)))
        for p, value in zip(likelihood.parameters, found, strict=True):
            start = np.resize(p.initial, value.shape[-1])
            np.testing.assert_allclose(value[0, 0], start, rtol=1e-5, atol=1e-6)
            shape = likelihood.shape_of(p.name, first.shape, dimension)
            assert value.shape == (4, *shape)


@pytest.mark.few(1)
@one_of_each_family
def test_trains_and_survives_saving(name, rng, tmp_path):
    likelihood, y, _, _ = case(name)
    x = rng.normal(size=(6, 2)).astype("float32")
    head = kl.layers.LikelihoodHead(name, UNITS)
    model = contracts.small_model(head, x)
    model.compile(
        contracts.momentum(),
        loss=kl.losses.LikelihoodLoss(name),
        weighted_metrics=[kl.metrics.NegativeLogLikelihood()],
        run_eagerly=contracts.EAGERLY and not name.startswith(TRACED),
    )
    contracts.training_moves_every_weight(model, x, y)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    # `predict` would compile both models again.
    outputs = model(x)
    contracts.assert_equal_outputs(
        as_numpy(outputs), as_numpy(again(x)), rtol=1e-6
    )
    expected = as_numpy(distribution_of(likelihood, outputs).nll(y)).mean()
    again.loss.adopt()
    found = as_numpy(again.loss(y, outputs))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@every_kind
def test_the_loss_learns_what_the_output_lacks(name):
    likelihood, y, prediction, _ = case(name)
    loss = kl.losses.LikelihoodLoss(name)
    variables = loss.adopt()
    found = as_numpy(loss(y, prediction))
    expected = as_numpy(likelihood(prediction).nll(y)).mean()
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert len(loss.trainable_variables) == len(likelihood.parameters)
    assert len(variables) <= len(likelihood.parameters)


@pytest.mark.parametrize(
    "name", ["censored(normal)", "mixture(normal,components=3)"]
)
def test_other_rooms_handle_or_refuse_it(name):
    likelihood, y, prediction, _ = case(name)
    model = contracts.small_model(
        kl.layers.LikelihoodHead(name, UNITS), prediction
    )
    model.compile("adam", loss=kl.losses.LikelihoodLoss(name))
    assert "not_finite" not in kl.diagnose(model, prediction, y).names
    with pytest.raises(ValueError, match="(finite|LocationScale).*Received"):
        kl.audit(model, prediction, y, output=None)
    if "mixture" in name:
        with pytest.raises(ValueError, match="one scale per outcome"):
            model.compile("adam", model.loss, metrics=[kl.metrics.Sharpness()])
