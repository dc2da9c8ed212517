"""Losses of Keras with a learned temperature, and scales in target units."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from tests import contracts
from tests.contracts import as_numpy

pytestmark = pytest.mark.usefixtures("step_by_step")


@keras.saving.register_keras_serializable("tests")
def cubic(y, p):
    return keras.ops.mean(keras.ops.abs(y - p) ** 3, axis=-1)


LOSSES = ["mse", keras.losses.MeanSquaredError(), cubic]


@pytest.mark.parametrize("given", LOSSES, ids=["name", "instance", "function"])
def test_it_is_the_loss_over_its_temperature(given, rng):
    y, p = rng.normal(size=(2, 6, 3)).astype("float32")
    loss = kl.losses.Weighted(given, reduction="sum")
    loss.adopt()
    loss.learned_beside()["temperature"].latest = 2.5
    weight = np.array([1, 0, 2, 1, 1, 1], "float32")
    power = 3 if given is cubic else 2
    each = (np.abs(y - p) ** power).mean(axis=1) / 2.5 + np.log(2.5)
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(loss)
    )
    again.adopt()
    again.learned_beside()["temperature"].latest = 2.5
    for one in (loss, again):
        found = as_numpy(one(y, p, weight))
        assert found == pytest.approx(np.sum(weight * each), rel=1e-5)


def test_its_temperature_becomes_the_mean_of_the_loss(rng):
    """The closed form of Kendall, Gal and Cipolla."""
    x = rng.normal(size=(32, 3)).astype("float32")
    y = x[:, :1] + 1
    model = contracts.small_model(keras.layers.Dense(1), x)
    for layer in model.layers:
        layer.trainable = False
    model.compile(keras.optimizers.SGD(0.3), kl.losses.Weighted("mse"))
    history = model.fit(x, y, epochs=40, batch_size=32, verbose=0).history
    mean = np.mean((model.predict(x, verbose=0) - y) ** 2)
    assert history["temperature"][-1] == pytest.approx(mean, rel=1e-3)
    assert history["loss"][-1] == pytest.approx(1 + np.log(mean), rel=1e-4)


CLASSES = {
    "focal": keras.losses.CategoricalFocalCrossentropy(gamma=3.0, alpha=0.5),
    "label smoothing": keras.losses.CategoricalCrossentropy(
        label_smoothing=0.2
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_focal_losses_and_label_smoothing(name, rng, tmp_path):
    """They keep their formulas, and train and save with a temperature."""
    x = rng.normal(size=(32, 3)).astype("float32")
    y = np.eye(3, dtype="float32")[x.argmax(axis=1)]
    layer = keras.layers.Dense(3, activation="softmax")
    model = contracts.small_model(layer, x)
    model.compile("adam", kl.losses.Weighted(CLASSES[name]))
    p = model.predict(x, verbose=0).astype("float64")
    terms = -y * np.log(p)
    if name == "focal":
        terms *= 0.5 * (1 - p) ** 3
    else:
        terms = -(0.8 * y + 0.2 / 3) * np.log(p)
    found = model.evaluate(x, y, verbose=0)
    assert found == pytest.approx(terms.sum(axis=1).mean(), rel=1e-5)
    contracts.training_moves_every_weight(model, x, y)
    contracts.model_survives_saving(model, x, y, tmp_path / "m.keras")


def tasks(x):
    inputs = keras.Input(x.shape[1:])
    outputs = {
        "a": keras.layers.Dense(1, activation="sigmoid")(inputs),
        "b": keras.layers.Dense(1)(inputs),
        "c": keras.layers.Dense(2)(inputs),
    }
    return kl.LikelihoodModel(inputs, outputs)


def test_tasks_of_all_kinds_in_one_model(rng, tmp_path):
    x = rng.normal(size=(32, 3)).astype("float32")
    label = (x[:, 0] > 0).astype("int32")
    y = {"a": label, "b": x[:, 1], "c": label}
    model = tasks(x)
    loss = {"a": kl.losses.Weighted("binary_crossentropy")}
    loss |= {"b": kl.losses.NormalLoss(), "c": kl.losses.SoftmaxLoss()}
    model.compile("adam", loss, metrics={"a": ["accuracy"]})
    learned = {"a_temperature", "b_scale", "c_temperature"}
    assert learned <= set(model.fit(x, y, verbose=0).history)
    contracts.training_moves_every_weight(model, x, y)
    contracts.model_survives_saving(model, x, y, tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras", compile=False)
    again.compile("adam", {**loss, "a": kl.losses.Weighted("mse")})
    kept = again.loss_parameters.learned()["a_temperature"].latest
    assert kept != 1
    assert set(model.predict_distribution(x, verbose=0)) == {"b", "c"}


def test_a_stock_model_is_refused(rng):
    x = rng.normal(size=(4, 3)).astype("float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", loss=kl.losses.Weighted("mse"))
    with pytest.raises(ValueError, match="does not train its loss.*Received"):
        model.fit(x, x[:, :1], verbose=0)


@pytest.mark.few(1)
@pytest.mark.parametrize("dimension", ["scalar", "channel"])
def test_learned_scales_start_in_the_units_of_the_targets(
    dimension, rng, tmp_path
):
    x = rng.normal(size=(300, 3)).astype("float32")
    noise = np.array([30.0, 0.003])[: 1 if dimension == "scalar" else 2]
    y = noise * rng.normal(size=(300, len(noise)))
    inputs = keras.Input((3,))
    outputs = [keras.layers.Dense(len(noise))(inputs) for _ in range(2)]
    model = kl.LikelihoodModel(inputs, dict(zip("ab", outputs, strict=True)))
    losses = {k: kl.losses.NormalLoss(dimension=dimension) for k in "ab"}
    model.compile(keras.optimizers.Adam(0.01), loss=losses)
    model.adapt({"a": 10 * y, "b": y + 50})
    scales = model.loss_parameters.learned()
    start = 1.4826 * np.median(np.abs(y - np.median(y, axis=0)), axis=0)
    for name, factor in (("a_scale", 10), ("b_scale", 1)):
        found = np.ravel(scales[name].latest)
        np.testing.assert_allclose(found, factor * start, rtol=1e-5)
    model.fit(x, {"a": y, "b": y}, epochs=300, batch_size=300, verbose=0)
    rest = np.std(y - model.predict(x, verbose=0)["b"], axis=0)
    found = np.ravel(scales["b_scale"].latest)
    np.testing.assert_allclose(found[0], rest[0], rtol=0.1)
    model.save(tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    after = again.loss_parameters.learned()["b_scale"].latest
    np.testing.assert_allclose(np.ravel(after), found, rtol=1e-6)
