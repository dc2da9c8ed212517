"""Targets, losses and weights by output, against Keras."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from tests import contracts

pytestmark = pytest.mark.usefixtures("step_by_step")


@pytest.fixture
def x(rng):
    return rng.normal(size=(24, 3)).astype("float32")


def two_outputs(kind, model=kl.LikelihoodModel):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    b, a = (keras.layers.Dense(1, name=name)(inputs) for name in "ba")
    return model(inputs, {"b": b, "a": a} if kind == "dict" else [b, a])


def losses_of(kind, ours):
    """Twice the same loss, as Keras' and as ours beside Keras'."""
    # The negative log-likelihood at scale 1 is half the squared error.
    normal = kl.losses.NormalLoss(scale=1.0) if ours else _half_square
    if kind == "dict":
        return {"a": normal, "b": "mae"}
    return ["mae", normal]


def _half_square(y, p):
    constant = 0.5 * np.log(2 * np.pi)
    return keras.ops.mean(0.5 * (y - p) ** 2 + constant, axis=-1)


@pytest.mark.parametrize("targets", ["dict", "list", "tuple"])
@pytest.mark.parametrize("losses", ["dict", "list"])
@pytest.mark.parametrize("outputs", ["dict", "list"])
def test_structures_are_those_of_keras(outputs, losses, targets, x):
    """Orders and names in the logs are the same, too."""
    found = []
    for ours in (False, True):
        model = two_outputs(
            outputs, kl.LikelihoodModel if ours else keras.Model
        )
        loss = losses_of(losses, ours)
        if outputs == "dict" and losses == "list":
            loss = loss[::-1]  # Keras sorts the keys of outputs
        weights = [3.0, 0.5] if losses == "list" else {"a": 0.5, "b": 3.0}
        model.compile("sgd", loss=loss, loss_weights=weights)
        y = {"b": x[:, 0], "a": x[:, 1]}
        if targets != "dict":
            order = "ab" if outputs == "dict" else "ba"
            y = {"list": list, "tuple": tuple}[targets](y[k] for k in order)
        try:
            found.append(model.evaluate(x, y, verbose=0, return_dict=True))
        except (ValueError, KeyError):
            # Keras takes fewer combinations.
            assert not ours
    assert found[-1] == pytest.approx(found[0], rel=1e-5)


KERAS_LOSSES = ["poisson", "hinge", "dice", "tversky", "kl_divergence"]


@pytest.mark.parametrize(
    "name", [*KERAS_LOSSES, "binary_crossentropy", _half_square]
)
def test_a_loss_of_keras_beside_ours_aligns_ranks(name, x):
    inputs = keras.Input((3,))
    heads = {k: keras.layers.Dense(1, activation="sigmoid") for k in "ab"}
    outputs = {key: head(inputs) for key, head in heads.items()}
    model = kl.LikelihoodModel(inputs, outputs)
    loss = {"a": kl.losses.NormalLoss(scale=1.0), "b": name}
    model.compile("sgd", loss=loss, metrics={"b": ["mse"]})
    y = (x[:, 0] > 0).astype("float32")
    found = [
        model.evaluate(x, {"a": y, "b": b}, verbose=0, return_dict=True)
        for b in (y, y[:, None])
    ]
    alone = keras.Model(inputs, outputs["b"])
    alone.compile("sgd", loss=name)
    expected = alone.evaluate(x, y, verbose=0)
    for one in found:
        assert one["b_loss"] == pytest.approx(expected, rel=1e-5)
    gap = alone.predict(x, verbose=0)[:, 0] - y
    assert found[0]["b_mse"] == pytest.approx(np.mean(gap**2), rel=1e-4)


@pytest.mark.parametrize(
    "y",
    [{"a": 0, "c": 1}, {"a": 0}, [0], [0, 1, 1], 0, {"a": 0, "b": 1, "c": 1}],
)
def test_other_targets_get_the_error_of_keras(y, x):
    y = keras.tree.map_structure(lambda i: x[:, i], y)
    model = two_outputs("dict")
    model.compile("sgd", loss=losses_of("dict", True))
    message = r"`y` and the outputs have different structures.*'a', 'b'"
    with pytest.raises(ValueError, match=message):
        model.fit(x, y, verbose=0)


def test_loss_weights_have_the_keys_of_the_losses(x):
    model = two_outputs("dict")
    for wrong in ({"a": 1.0, "c": 2.0}, [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match="`loss_weights` and the outputs"):
            model.compile(
                "sgd", loss=losses_of("dict", True), loss_weights=wrong
            )


def test_a_list_of_one_head_is_that_head(x):
    """The scale is predicted, not learned by the loss beside it."""
    inputs = keras.Input((3,))
    model = kl.LikelihoodModel(inputs, [kl.layers.ScaleHead(1)(inputs)])
    model.compile(keras.optimizers.SGD(0.1), loss=[kl.losses.NormalLoss()])
    assert len(model.trainable_variables) == 4
    history = model.fit(x, 3 * x[:, 0], epochs=3, verbose=0).history
    assert set(history) == {"loss"}
    _, scale = model.predict(x, verbose=0)
    assert np.ptp(scale) > 0
    one, named = (
        kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1, name="h")(inputs))
        for _ in range(2)
    )
    named.set_weights(one.get_weights())
    one.compile("sgd", loss=kl.losses.NormalLoss())
    named.compile("sgd", loss={"h": kl.losses.NormalLoss()})
    y = x[:, :1]
    expected = one.evaluate(x, y, verbose=0)
    for form in (y, {"h": y}, [y]):
        assert named.evaluate(x, form, verbose=0) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["dict", "list"])
def test_each_target_may_have_its_own_index(kind, x):
    model = two_outputs(kind)
    scale = kl.DataParameter(24, learning_rate=0.3)
    loss = {"a": kl.losses.NormalLoss(scale=scale), "b": "mse"}
    model.compile(keras.optimizers.SGD(0.01), loss=loss)
    y = x[:, 0].copy()
    y[5] = 50.0
    indexed = {"b": x[:, 1], "a": kl.indexed(y)}
    if kind == "list":
        indexed = [kl.indexed(x[:, 1]), kl.indexed(y)]
    model.fit(x, indexed, epochs=3, batch_size=6, verbose=0)
    assert scale.values().argmax() == 5


def test_broadcasting_targets_are_an_error(x):
    sequences = np.repeat(x[:, None], 4, axis=1)
    inputs = keras.Input((4, 3))
    model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(2)(inputs))
    model.compile("sgd", loss=kl.losses.NormalLoss())
    with pytest.raises(ValueError, match=r"shape \(None, 4, 2\).*\(24, 1, 2\)"):
        model.fit(sequences, sequences[:, :1, :2], verbose=0)
    batch = keras.ops.convert_to_tensor(sequences)
    with pytest.raises(ValueError, match=r"Received: \(24, 1, 2\)"):
        model.compute_loss(batch, batch[:, :1, :2], model(batch))


@pytest.mark.parametrize("units", [1, 2])
def test_weights_with_a_last_axis_of_one_are_per_example(units, x):
    y = x[:, :units].copy()
    weight = (np.arange(24) % 2).astype("float32")
    y[weight == 0] += 100
    model = contracts.small_model(kl.layers.ScaleHead(units), x)
    model.compile(
        "sgd",
        loss=kl.losses.NormalLoss(),
        weighted_metrics=["mse", kl.metrics.NegativeLogLikelihood()],
    )
    forms = [weight, weight[:, None], np.tile(weight[:, None], units)]
    found = [
        model.evaluate(x, y, sample_weight=w, verbose=0, return_dict=True)
        for w in forms
    ]
    kept = weight > 0
    rows = model.evaluate(x[kept], y[kept], verbose=0, return_dict=True)
    rows["loss"] /= 2  # Keras divides by all rows
    for one in found:
        assert one == pytest.approx(rows, rel=1e-5)
    # One weight per unit counts that unit alone.
    if units == 2:
        weight = np.tile([[1.0, 0.0]], (24, 1)).astype("float32")
        one = model.evaluate(
            x, y, sample_weight=weight, verbose=0, return_dict=True
        )
        error = model.predict(x, verbose=0)[0] - y
        assert one["mse"] == pytest.approx(np.mean(error[:, 0] ** 2), rel=1e-4)


def test_impossible_targets_of_weight_0_leave_metrics_finite(x):
    y = x[:, :1].copy()
    y[:8] = np.nan
    weight = np.isfinite(y[:, 0]).astype("float32")
    model = contracts.small_model(kl.layers.ScaleHead(1), x)
    ours = kl.metrics.NegativeLogLikelihood(), kl.metrics.CalibrationError()
    model.compile("sgd", loss=kl.losses.NormalLoss(), metrics=["mse", *ours])
    found = model.evaluate(
        x, y, sample_weight=weight, verbose=0, return_dict=True
    )
    kept = weight > 0
    expected = model.evaluate(x[kept], y[kept], verbose=0, return_dict=True)
    expected["loss"] *= 2 / 3
    assert found == pytest.approx(expected, rel=1e-5)
    # Other targets of weight 0 count in metrics without weights, as in Keras.
    y = x[:, :1]
    found = model.evaluate(
        x, y, sample_weight=weight, verbose=0, return_dict=True
    )
    expected = model.evaluate(x, y, verbose=0, return_dict=True)
    assert found["mse"] == pytest.approx(expected["mse"], rel=1e-5)


def test_a_unit_of_weight_0_may_be_nan(x):
    y = x[:, :2].copy()
    y[:8, 0] = np.nan
    model = contracts.small_model(kl.layers.ScaleHead(2), x)
    model.compile("sgd", loss="normal")
    weight = np.isfinite(y).astype("float32")
    history = model.fit(x, y, sample_weight=weight, verbose=0).history
    assert np.isfinite(history["loss"]).all()
