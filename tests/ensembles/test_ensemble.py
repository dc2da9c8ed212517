"""Ensembles: several networks as one model."""

import warnings

import keras
import numpy as np
import pytest
from keras import layers, ops

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.ensembles import EnsembleDistribution
from keras_likelihood.likelihoods.output import split_output
from tests.contracts import (
    EAGERLY,
    as_numpy,
    predictions_for,
    targets_for,
)
from tests.kinds import Subclassed

MEMBERS = 3
KINDS = [
    *("student_t", "softmax", "censored(normal)", "ordinal(4)"),
    *("quantiles([0.2,0.7])", "multivariate_normal(covariance=full)"),
]
"""Of every shape: numbers, classes, bounds and vectors, with parameters that
are numbers and that are vectors."""


def data(rows=64):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 3)).astype("float32")
    y = 5 + 2 * x[:, :1] + 0.3 * rng.normal(size=(rows, 1))
    return x, y.astype("float32")


def network(output):
    """A function that builds a small functional model."""

    def build():
        inputs = keras.Input((3,))
        hidden = layers.Dense(6, activation="tanh", name="hidden")(inputs)
        return keras.Model(inputs, output()(hidden), name="net")

    return build


with_scale = network(lambda: kl.layers.ScaleHead(1))
with_temperature = network(lambda: kl.layers.TemperatureHead(3))
lone_logits = network(lambda: layers.Dense(3))


def classes(rows=64):
    x, y = data(rows)
    return x, (y[:, 0] > 5).astype("int64") + (x[:, 1] > 1)


def members_of(name, rng):
    """Distributions of the members, and their ensemble."""
    likelihood = likelihoods.get(name)
    units = 2
    values = rng.normal(size=(4, MEMBERS, units)).astype("float32")
    values = predictions_for(likelihood, values)
    options = {}
    for p in likelihood.parameters:
        shape = likelihood.shape_of(p.name, (4, units), "element")
        start = np.resize(p.constraint.inverse(p.initial), shape)
        noise = 0.2 * rng.normal(size=(4, MEMBERS, *shape))
        value = (start + noise).astype("float32")
        options[p.name] = as_numpy(p.constraint(ops.convert_to_tensor(value)))
    members = [
        likelihood(values[:, j], **{k: v[:, j] for k, v in options.items()})
        for j in range(MEMBERS)
    ]
    joint = EnsembleDistribution(likelihood, components=MEMBERS)(
        values.mean(axis=1),
        member=values.reshape(4, -1),
        **{k: v.reshape(4, -1) for k, v in options.items()},
    )
    return members, joint


@pytest.mark.few(4)
@pytest.mark.parametrize("name", KINDS)
def test_members_mix_in_equal_shares(name, rng):
    members, joint = members_of(name, rng)
    likelihood = likelihoods.get(name)
    y = targets_for(likelihood, (4, 2), rng)
    each = np.stack([as_numpy(m.nll(y)) for m in members])
    expected = -np.log(np.mean(np.exp(-each), axis=0))
    np.testing.assert_allclose(as_numpy(joint.nll(y)), expected, 1e-4, 1e-5)
    for found, member in zip(joint.members, members, strict=True):
        np.testing.assert_array_equal(
            as_numpy(found.prediction), as_numpy(member.prediction)
        )
    means = np.stack([as_numpy(m.mean()) for m in members])
    np.testing.assert_allclose(
        as_numpy(joint.mean()), means.mean(axis=0), 1e-4, 1e-5
    )
    drawn = as_numpy(joint.sample(2, seed=0))
    assert drawn.shape == as_numpy(members[0].sample(2, seed=0)).shape
    parts = as_numpy(joint.aleatoric), as_numpy(joint.epistemic)
    total = as_numpy(joint.total)
    np.testing.assert_allclose(sum(parts), total, rtol=1e-4, atol=1e-5)
    assert (parts[1] >= 0).all() and (parts[0] > 0).all()
    if not hasattr(joint, "class_probabilities"):
        variances = [as_numpy(m.variance()) for m in members]
        np.testing.assert_allclose(
            total, np.mean(variances, axis=0) + means.var(axis=0), rtol=2e-3
        )


@pytest.mark.few(0)
@pytest.mark.parametrize("name", ["normal", "poisson", "quantiles([0.2,0.7])"])
def test_quantiles_invert_the_cdf(name, rng):
    members, joint = members_of(name, rng)
    at = as_numpy(joint.quantile(0.3))
    expected = np.mean([as_numpy(m.cdf(at)) for m in members], axis=0)
    np.testing.assert_allclose(as_numpy(joint.cdf(at)), expected, atol=1e-6)
    if joint.is_discrete:
        assert (expected >= 0.3 - 1e-6).all()
        assert (as_numpy(joint.cdf_below(at)) < 0.3).all()
    else:
        np.testing.assert_allclose(expected, 0.3, atol=1e-5)
    lower, upper = (as_numpy(v) for v in joint.interval(0.9))
    assert (lower < upper).all()


def test_classes_average_their_probabilities(rng):
    for name in ("softmax", "bernoulli"):
        members, joint = members_of(name, rng)
        each = [as_numpy(m.class_probabilities()) for m in members]
        p = as_numpy(joint.class_probabilities())
        np.testing.assert_allclose(p, np.mean(each, axis=0), rtol=1e-5)
        # The prediction gives the same answer.
        alone = likelihoods.get(name)(joint.prediction)
        np.testing.assert_allclose(
            as_numpy(alone.class_probabilities()), p, rtol=1e-4
        )
        entropy = [-np.sum(v * np.log(v), axis=-1) for v in (*each, p)]
        np.testing.assert_allclose(
            as_numpy(joint.aleatoric), np.mean(entropy[:-1], axis=0), rtol=1e-4
        )
        np.testing.assert_allclose(
            as_numpy(joint.total), entropy[-1], rtol=1e-4
        )


def alone(member, loss):
    """The same network as a separate model, before training."""
    copy = keras.models.clone_model(member)
    copy.set_weights(member.get_weights())
    model = kl.LikelihoodModel.from_model(copy)
    optimizer = keras.optimizers.SGD(0.05)
    model.compile(optimizer, loss=loss, run_eagerly=EAGERLY)
    return model


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["head", "learned"])
def test_members_train_as_they_would_alone(kind):
    x, y = data()
    weight = np.linspace(0.1, 2, len(x))
    build = with_scale if kind == "head" else network(lambda: layers.Dense(1))
    options = {"epochs": 2, "batch_size": 24, "shuffle": False, "verbose": 0}
    options["sample_weight"] = weight

    def loss():
        return kl.losses.NormalLoss(beta=0.5)

    model = kl.Ensemble(build, members=2)
    single = [alone(member, loss()) for member in model.members]
    optimizer = keras.optimizers.SGD(0.05)
    model.compile(optimizer, loss=loss(), run_eagerly=EAGERLY)
    found = model.fit(x, y, **options).history["loss"]
    losses = [other.fit(x, y, **options).history["loss"] for other in single]
    np.testing.assert_allclose(found, np.mean(losses, axis=0), rtol=1e-5)
    for member, other in zip(model.members, single, strict=True):
        pairs = zip(member.get_weights(), other.get_weights(), strict=False)
        for weights in pairs:
            np.testing.assert_allclose(*weights, rtol=1e-5, atol=1e-5)
    if kind == "learned":
        learned = model.loss.parameter_values()["scale"]
        expected = [v.loss.parameter_values()["scale"] for v in single]
        np.testing.assert_allclose(learned, expected, rtol=1e-5)


@pytest.fixture(scope="module")
def regressor():
    keras.utils.set_random_seed(0)
    x, y = data()
    model = kl.Ensemble(with_scale, members=MEMBERS)
    model.adapt(y)
    model.compile(
        "adam",
        loss=kl.losses.NormalLoss(),
        metrics=["mse", kl.metrics.NegativeLogLikelihood()],
    )
    model.fit(x, y, epochs=2, batch_size=16, verbose=0)
    return model


def test_one_model_from_fit_to_file(regressor, tmp_path, capsys):
    x, y = data()
    found = regressor.evaluate(x, y, verbose=0, return_dict=True)
    law = regressor.predict_distribution(x, verbose=0)
    mean = regressor.predict(x, verbose=0).prediction
    np.testing.assert_allclose(found["mse"], np.mean((y - mean) ** 2), 1e-5)
    nll = as_numpy(law.nll(y)).mean()
    np.testing.assert_allclose(found["negative_log_likelihood"], nll, 1e-4)
    each = np.mean([as_numpy(m.nll(y)) for m in law.members])
    np.testing.assert_allclose(found["loss"], each, 1e-4)
    assert nll < each
    # `adapt` made every member start at the targets.
    assert abs(mean.mean() - y.mean()) < 1.5
    regressor.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert isinstance(loaded, kl.Ensemble) and len(loaded.members) == MEMBERS
    again = loaded.predict_distribution(x, verbose=0)
    np.testing.assert_array_equal(as_numpy(again.nll(y)), as_numpy(law.nll(y)))
    regressor.summary()
    assert "member_2" in capsys.readouterr().out


@pytest.mark.few(0)
@pytest.mark.usefixtures("step_by_step")
def test_regressor_is_compared_and_calibrated(regressor, tmp_path):
    x, y = data()
    (row,) = kl.compare({"ensemble": regressor}, x, y)
    law = regressor.predict_distribution(x, verbose=0)
    nll = as_numpy(law.nll(y)).mean()
    np.testing.assert_allclose(row.scores["nll"], nll, rtol=1e-4)
    fitted = kl.conformal.ConformalIntervals().fit(regressor, x, y)
    lower, upper = fitted.interval(x, 0.8)
    assert 0.8 <= np.mean((y >= lower) & (y <= upper)) < 0.9
    fitted.model.save(tmp_path / "c.keras")
    loaded = keras.models.load_model(tmp_path / "c.keras")
    np.testing.assert_allclose(loaded.interval(x, 0.8)[0], lower, rtol=1e-5)
    with pytest.raises(ValueError, match="for ensembles use .*Conformal"):
        kl.recalibration.regression.GlobalRescaling().fit(regressor, x, y)


def test_classifier():
    x, y = classes()
    model = kl.Ensemble(with_temperature, members=2)
    ece = kl.metrics.ExpectedCalibrationError()
    model.compile(
        "sgd",
        loss=kl.losses.SoftmaxLoss(),
        metrics=["accuracy", ece],
        run_eagerly=EAGERLY,
    )
    law = model.predict_distribution(x, verbose=0)
    p = as_numpy(law.class_probabilities())
    found = model.evaluate(x, y, verbose=0, return_dict=True)
    error = kl.metrics.functions.expected_calibration_error(y, p)
    np.testing.assert_allclose(
        found["expected_calibration_error"], error, atol=1e-4
    )
    np.testing.assert_allclose(found["accuracy"], np.mean(p.argmax(1) == y))
    sets = kl.conformal.ConformalSets().fit(model, x, y).predict_set(x, 0.8)
    assert sets[np.arange(len(y)), y].mean() >= 0.8


@pytest.mark.few(0)
@pytest.mark.usefixtures("step_by_step")
def test_temperatures_of_the_members_are_kept_in_recalibration():
    x, y = classes()
    model = kl.Ensemble(lone_logits, members=2)
    model.compile("sgd", loss=kl.losses.SoftmaxLoss())
    model.loss_parameters.learned()["temperature"].latest = [0.5, 2.0]
    law = model.predict_distribution(x, verbose=0)
    learned = [float(as_numpy(m.temperature).mean()) for m in law.members]
    np.testing.assert_allclose(learned, [0.5, 2.0], rtol=1e-5)
    fitted = kl.recalibration.GlobalScaling().fit(model, x, y)
    nll = as_numpy(law.nll(y)).mean()
    np.testing.assert_allclose(fitted.report_["nll_before"], nll, rtol=1e-4)
    served = fitted.model.predict(x, verbose=0)
    tempered = fitted.calibrate(as_numpy(law.prediction))
    np.testing.assert_allclose(served, tempered, atol=1e-5)


@pytest.mark.usefixtures("step_by_step")
def test_subclassed_and_sequential_members(tmp_path):
    x, y = data()

    def subclassed():
        return Subclassed(1)

    with pytest.raises(ValueError, match="Pass `inputs="):
        kl.Ensemble(subclassed, members=2)
    model = kl.Ensemble(subclassed, members=2, inputs=keras.Input((3,)))
    model.compile("sgd", loss=kl.losses.LaplaceLoss(scale=0.5))
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    found = as_numpy(loaded.predict_distribution(x, verbose=0).nll(y))
    law = model.predict_distribution(x, verbose=0)
    np.testing.assert_array_equal(found, as_numpy(law.nll(y)))
    # Existing models are joined and not changed.
    given = [with_scale() for _ in range(2)]
    joined = kl.Ensemble.from_members(given)
    assert joined.members[0] is given[0]
    mean = split_output(joined(x))[0]
    each = [as_numpy(split_output(m(x))[0]) for m in given]
    np.testing.assert_allclose(as_numpy(mean), np.mean(each, 0), rtol=1e-5)


def test_masks_and_half_precision(rng):
    x = np.array([[1, 2, 0], [3, 0, 0]])
    y = rng.normal(size=(2, 3, 1)).astype("float32")

    def build():
        inputs = keras.Input((3,), dtype="int32")
        words = layers.Embedding(4, 3, mask_zero=True)(inputs)
        hidden = layers.Dense(3, activation="tanh")(words)
        return keras.Model(inputs, kl.layers.ScaleHead(1)(hidden))

    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = kl.Ensemble(build, members=2)
    finally:
        keras.config.set_dtype_policy(policy)
    model.compile("sgd", loss=kl.losses.NormalLoss(), run_eagerly=EAGERLY)
    found = model.evaluate(x, y, verbose=0)
    law = model.predict_distribution(x, verbose=0)
    assert keras.backend.standardize_dtype(law.prediction.dtype) == "float32"
    each = np.mean([as_numpy(m.nll(y)) for m in law.members], axis=0)
    np.testing.assert_allclose(found, each[x > 0].mean(), rtol=1e-4)


def test_refusals(rng):
    with pytest.raises(ValueError, match="from_members.*Received: Functional"):
        kl.Ensemble(with_scale())
    with pytest.raises(ValueError, match="from_members.*Received: Functional"):
        kl.Ensemble(with_scale(), 3)
    with pytest.raises(ValueError, match="Received: 1"):
        kl.Ensemble(with_scale, 1)
    same = with_scale()
    with pytest.raises(ValueError, match="the same model twice"):
        kl.Ensemble(lambda: same)

    def seeded():
        keras.utils.set_random_seed(1)
        return with_scale()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kl.Ensemble(seeded, members=2)
    assert any("the same weights" in str(w.message) for w in caught)
    with pytest.raises(ValueError, match="instead of 'mse'"):
        model.compile("sgd", loss="mse")
    scale = kl.DataParameter(num_examples=8)
    with pytest.raises(ValueError, match="from_members"):
        model.compile("sgd", loss=kl.losses.NormalLoss(scale=scale))
    with pytest.raises(ValueError, match="Received: 'von_mises'"):
        EnsembleDistribution("von_mises")
    with pytest.raises(ValueError, match="Received: outputs"):
        kl.Ensemble(
            lambda: keras.Model(
                inputs := keras.Input((3,)), {"a": layers.Dense(1)(inputs)}
            )
        )


@pytest.mark.few(0)
def test_members_ignore_a_class():
    x, y = classes()
    y[::4] = 255
    found = []
    for rows in (slice(None), y != 255):
        keras.utils.set_random_seed(0)
        model = kl.Ensemble(lone_logits, members=2)
        loss = kl.losses.SoftmaxLoss(temperature=1.0, missing=255)
        model.compile("sgd", loss=loss)
        found.append(model.evaluate(x[rows], y[rows], verbose=0))
        model.fit(x[rows], y[rows], verbose=0)
    assert found[0] == pytest.approx(found[1], rel=1e-5)
