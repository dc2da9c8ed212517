"""Findings for broken models, and no findings for good ones."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.diagnosis import diagnose
from tests import kinds
from tests.batches import many_times


def linear_data(rng, count=384, noise=0.5):
    x = rng.normal(size=(count, 3)).astype("float32")
    y = x @ np.float32([[1.0], [-0.5], [0.2]])
    y = y + noise * rng.normal(size=y.shape)
    return x, (y / y.std()).astype("float32")


def scale_model(**options):
    inputs = keras.Input((3,))
    return kl.LikelihoodModel(inputs, kl.layers.ScaleHead(1, **options)(inputs))


def fitted(model, loss, x, y):
    model.compile(keras.optimizers.Adam(0.05), loss=loss)
    model.fit(*many_times(20, x, y), batch_size=48, verbose=0)
    return model


def compiled(model, loss=None):
    """A model with weights set by hand, which saves the training."""
    model.compile("sgd", loss=loss or kl.losses.NormalLoss())
    return model


def finding(diagnosis, name):
    found = [f for f in diagnosis if f.name == name]
    assert found, f"{name} not in {diagnosis.names}"
    return found[0]


@pytest.mark.few(1)
@pytest.mark.parametrize("loss", [kl.losses.NormalLoss, kl.losses.LaplaceLoss])
def test_healthy_regression(rng, loss):
    x, y = linear_data(rng)
    diagnosis = diagnose(fitted(scale_model(), loss(), x, y), x, y)
    assert not diagnosis, str(diagnosis)
    assert str(diagnosis) == "Nothing suspicious found."


@pytest.mark.few(0)
def test_healthy_classifier(rng):
    x = rng.normal(size=(288, 3)).astype("float32")
    y = np.argmax(x + rng.normal(size=x.shape), axis=1)
    inputs = keras.Input((3,))
    head = kl.layers.TemperatureHead(3)(inputs)
    model = kl.LikelihoodModel(inputs, head)
    diagnosis = diagnose(fitted(model, kl.losses.SoftmaxLoss(), x, y), x, y)
    assert not diagnosis, str(diagnosis)


class Hidden(keras.layers.Layer):
    """An activation that `compile` cannot recognise."""

    def __init__(self, name):
        super().__init__()
        self.function = keras.activations.get(name)

    def call(self, inputs):
        return self.function(inputs)


def test_probabilities_where_logits_belong(rng):
    x = rng.normal(size=(288, 3)).astype("float32")
    y = np.argmax(x + rng.normal(size=x.shape), axis=1)
    inputs = keras.Input((3,))
    outputs = Hidden("softmax")(keras.layers.Dense(3)(inputs))
    model = kl.LikelihoodModel(inputs, outputs)
    diagnosis = diagnose(fitted(model, kl.losses.SoftmaxLoss(), x, y), x, y)
    assert "probabilities_as_logits" in diagnosis.names


@pytest.mark.few(0)
def test_healthy_dict_of_outputs(rng):
    x, y = linear_data(rng)
    inputs = keras.Input((3,))
    outputs = {
        "value": kl.layers.ScaleHead(1)(inputs),
        "sign": keras.layers.Dense(1)(inputs),
    }
    model = kl.LikelihoodModel(inputs, outputs)
    losses = {
        "value": kl.losses.NormalLoss(),
        "sign": kl.losses.BernoulliLoss(temperature=1.0),
    }
    y = {"value": y, "sign": (y > 0).astype("float32")}
    diagnosis = diagnose(fitted(model, losses, x, y), x, y)
    assert not diagnosis, str(diagnosis)
    y["value"] = 100 * y["value"]
    message = finding(diagnose(model, x, y), "unscaled_targets").message
    assert "of output 'value'" in message


def test_collapsed_scale(rng):
    """The target is a copy of an input, so there is no noise."""
    x, _ = linear_data(rng)
    y = x[:, :1]
    model = scale_model(constraint="exp")
    copy = model.layers[-1].prediction
    copy.set_weights([np.float32([[1], [0], [0]]), np.zeros(1)])
    copy.trainable = False
    fitted(model, kl.losses.NormalLoss(), x, y)
    diagnosis = diagnose(model, x, y)
    found = finding(diagnosis, "collapsed_scale")
    assert f"remedy: {found.remedy}" in str(diagnosis)
    _, scale = model.predict(x, verbose=0)
    assert found.evidence["median_scale"] == pytest.approx(np.median(scale))
    assert found.evidence["median_error"] == 0


@pytest.mark.few(0)
def test_scale_at_its_floor(rng):
    x, y = linear_data(rng)
    model = compiled(scale_model())
    head = model.layers[-1].parameter_layers[0]
    head.kernel.assign(0 * head.kernel)
    head.bias.assign([-12.0])
    found = finding(diagnose(model, x, y), "collapsed_scale")
    floor = 0.001 / (np.log(2) + 0.001)
    assert found.evidence["floor"] == pytest.approx(floor)
    assert "scale_too_small" in diagnose(model, x, y).names


def test_scale_yet_to_grow_has_not_collapsed(rng):
    x, y = linear_data(rng)
    model = compiled(scale_model())
    names = diagnose(model, x, 1e5 * y).names
    assert "collapsed_scale" not in names
    assert "scale_too_small" in names


@pytest.mark.few(1)
@pytest.mark.parametrize(("bias", "end"), [(9.0, "upper"), (-9.0, "lower")])
def test_saturated_shape(rng, bias, end):
    x, y = linear_data(rng)
    inputs = keras.Input((3,))
    model = kl.LikelihoodModel(inputs, kl.layers.RobustRhoHead(1)(inputs))
    compiled(model, kl.losses.RobustRhoLoss())
    shape = model.layers[-1].parameter_layers[0]
    shape.kernel.assign(0 * shape.kernel)
    shape.bias.assign([bias])
    found = finding(diagnose(model, x, y), "saturated_constraint")
    assert f"{end} end" in found.message
    assert "AffineSigmoid" in found.message


def test_scale_ran_away(rng):
    x, y = linear_data(rng)
    model = compiled(scale_model())
    model.layers[-1].parameter_layers[0].bias.assign([800.0])
    names = diagnose(model, x, y).names
    assert "ran_away" in names
    assert "scale_too_large" in names


@pytest.mark.filterwarnings("ignore:.*does not train its loss")
def test_stock_model_does_not_train_its_loss(rng):
    x, y = linear_data(rng)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    compiled(model)
    found = finding(diagnose(model, x, y), "untrained_parameter")
    assert "kl.LikelihoodModel" in found.remedy
    owner = kl.LikelihoodModel.from_model(model)
    fitted(owner, kl.losses.NormalLoss(), x, y)
    assert "untrained_parameter" not in diagnose(owner, x, y).names


@pytest.mark.few(0)
def test_stock_model_with_a_head_in_a_dict_is_healthy(rng):
    x, y = linear_data(rng)
    inputs = keras.Input((3,))
    model = keras.Model(inputs, {"y": kl.layers.ScaleHead(1)(inputs)})
    fitted(model, {"y": kl.losses.NormalLoss()}, x, {"y": y})
    assert not diagnose(model, x, {"y": y})


def test_frozen_head(rng):
    x, y = linear_data(rng)
    model = scale_model()
    model.layers[-1].parameter_layers[0].trainable = False
    compiled(model)
    found = finding(diagnose(model, x, y), "untrained_parameter")
    assert "trainable" in found.remedy


def test_never_moved(rng):
    x, y = linear_data(rng)
    model = scale_model()
    model.compile(keras.optimizers.SGD(0.0), loss=kl.losses.NormalLoss())
    assert diagnose(model, x, y).names[0] == "not_fitted"
    model.fit(x, y, verbose=0)
    assert diagnose(model, x, y).names[0] == "never_moved"


def test_data_rows_never_visited(rng):
    x, y = linear_data(rng, count=128)
    scale = kl.DataParameter(128)
    model = kl.LikelihoodModel.from_model(
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    )
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=scale))
    assert diagnose(model, x, y).names[0] == "not_fitted"
    half = kl.indexed(y[:64])
    model.fit(x[:64], half, callbacks=[scale], verbose=0)
    found = finding(diagnose(model, x, kl.indexed(y)), "rows_never_moved")
    assert found.evidence["share"] == 0.5


@pytest.mark.few(0)
def test_unscaled_and_constant_targets(rng):
    x, y = linear_data(rng)
    model = compiled(scale_model())
    for sick in (1000 * y, 0.01 * y, y + 50):
        found = finding(diagnose(model, x, sick), "unscaled_targets")
        assert found.evidence["sd"] == pytest.approx(float(sick.std()), 1e-3)
    names = diagnose(model, x, np.ones_like(y)).names
    assert "constant_targets" in names
    assert "unscaled_targets" not in names


def test_outliers_rule_the_loss(rng):
    x, y = linear_data(rng)
    y[[7, 70]] = 60
    loss = kl.losses.NormalLoss(scale=1.0)
    model = kl.LikelihoodModel.from_model(
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    )
    diagnosis = diagnose(compiled(model, loss), x, y)
    found = finding(diagnosis, "outliers_in_loss")
    assert set(found.evidence["examples"][:2]) == {7, 70}


@pytest.mark.parametrize("place", ["inputs", "targets", "weights"])
def test_not_finite(rng, place):
    x, y = linear_data(rng)
    model = compiled(scale_model())
    if place == "inputs":
        x[3, 1] = np.nan
    elif place == "targets":
        y[5] = np.inf
    else:
        model.layers[-1].prediction.bias.assign([np.nan])
    diagnosis = diagnose(model, x, y)
    assert diagnosis.names[0] == "not_finite"
    assert f"in the {place}" in diagnosis[0].message
    assert diagnosis[0].evidence[place] == 1


def test_refuses_other_losses_and_lengths(rng):
    x, y = linear_data(rng)
    model = scale_model()
    with pytest.raises(ValueError, match="must be a likelihood loss"):
        diagnose(model, x, y)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    with pytest.raises(
        ValueError, match="targets of 384 examples. Received: 10"
    ):
        diagnose(model, x, y[:10])


@pytest.mark.parametrize("loss", ["softmax", "bernoulli"])
def test_labels_outside_their_range_are_seen(rng, loss):
    x, y = kinds.data()
    units = 3 if loss == "softmax" else 1
    y = y if units == 3 else (y > 0).astype(int)
    model = kl.LikelihoodModel.from_model(
        kinds.make("functional", units, "linear")
    )
    model.compile("sgd", loss=kl.losses.LikelihoodLoss(loss, temperature=1.0))
    assert "labels_out_of_range" not in diagnose(model, x, y).names
    for wrong in (-1, 3):
        y[[4, 9]] = wrong
        found = finding(diagnose(model, x, y), "labels_out_of_range")
        assert found.evidence["received"] == [wrong]
        assert found.evidence["examples"] == [4, 9]


def test_logits_of_yes_and_no_may_lie_between_0_and_1(rng):
    x, y = kinds.data()
    y = (y > 0).astype("float32")
    model = kinds.make("functional", 1, "linear")
    last = model.layers[-1]
    last.kernel.assign(0.02 * last.kernel)
    last.bias.assign([0.5])
    model = kl.LikelihoodModel.from_model(model)
    model.compile("sgd", loss=kl.losses.BernoulliLoss(temperature=1.0))
    p = model.predict(x, verbose=0)
    assert 0 < p.min() and p.max() < 1
    assert "probabilities_as_logits" not in diagnose(model, x, y).names


@pytest.mark.parametrize("shape", ["file", "nested", "subclassed"])
def test_heads_in_every_shape_of_model(rng, shape, tmp_path):
    x, y = linear_data(rng)
    narrow = kl.constraints.AffineSigmoid(0.1, 0.4)
    head = kl.layers.ScaleHead(1, constraint=narrow, initial=0.2)

    class Subclassed(kl.LikelihoodModel):
        def __init__(self):
            super().__init__()
            self.head = head

        def call(self, x):
            return self.head(x)

    inputs = keras.Input((3,))
    if shape == "subclassed":
        model = compiled(Subclassed())
        model(inputs)
    else:
        model = kl.LikelihoodModel(inputs, head(inputs))
    if shape == "nested":
        outer = keras.Input((3,))
        model = kl.LikelihoodModel(outer, model(outer))
    head.parameter_layers[0].bias.assign([9.0])
    if shape != "subclassed":
        compiled(model)
    if shape == "file":
        model.save(tmp_path / "model.keras")
        model = tmp_path / "model.keras"
    found = finding(diagnose(model, x, y), "saturated_constraint")
    assert found.evidence["high"] == pytest.approx(0.4)


def sine_model(x, mean, scale, weight):
    """Random features of x whose last layers are fitted by least squares."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((1,))
    hidden = keras.layers.Dense(
        32,
        activation="tanh",
        kernel_initializer=keras.initializers.RandomNormal(stddev=6.0),
        bias_initializer=keras.initializers.RandomNormal(stddev=3.0),
    )(inputs)
    head = kl.layers.ScaleHead(1)
    model = compiled(kl.LikelihoodModel(inputs, head(hidden)))
    phi = keras.Model(inputs, hidden).predict(x, verbose=0)
    phi = np.concatenate([phi, np.ones_like(x)], 1).astype("float64")
    (layer,) = head.parameter_layers
    for part, target, w in (
        (head.prediction, mean, weight),
        (layer, layer.constraint.inverse(scale), np.ones_like(x)),
    ):
        design = np.sqrt(w) * phi
        found = np.linalg.solve(
            design.T @ design + 1e-4 * np.eye(33), phi.T @ (w * target)
        ).astype("float32")
        part.kernel.assign(found[:-1])
        part.bias.assign(found[-1])
    return model


def sine_data(seed, noise):
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (400, 1)).astype("float32")
    y = np.sin(3 * x) + noise(x) * random.normal(size=x.shape)
    return x, y.astype("float32")


def test_a_scale_that_hurts_the_mean():
    """Fitted on one side of 0, treated as noise on the other."""
    x, y = sine_data(0, lambda x: 0.02)
    left = x < 0
    model = sine_model(
        x, np.where(left, y, 0.0), np.where(left, 0.02, 0.7), np.ones_like(x)
    )
    found = finding(diagnose(model, x, y), "neglected_mean")
    assert "beta=1" in found.remedy
    assert found.evidence["share"] > 0.8
    model.compile("sgd", loss=kl.losses.NormalLoss(beta=1.0))
    assert "neglected_mean" not in diagnose(model, x, y).names


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(5))
def test_a_scale_that_fits_the_noise_does_not_hurt(seed):
    def noise(x):
        return np.where(x < 0, 0.02, 0.7)

    x, y = sine_data(seed, noise)
    model = sine_model(x, y, noise(x), noise(x) ** -2.0)
    assert "neglected_mean" not in diagnose(model, x, y).names
