"""Heads that adapt to the units of the targets."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.layers.target_units import centre_and_spread


def data(rng, units=1):
    x = rng.normal(size=(96, 3)).astype("float32")
    y = x[:, :units] + 0.2 * rng.standard_t(3, size=(96, units))
    return x, y


def small_model():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    features = keras.layers.Dense(8, activation="tanh")(inputs)
    outputs = kl.layers.ScaleHead(1)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.01), loss=kl.losses.NormalLoss())
    return model


def start_over(model, weights):
    """Restores the initial weights without compiling the step again."""
    model.set_weights(weights)
    for variable in model.optimizer.variables:
        if "learning_rate" not in variable.path:
            variable.assign(np.zeros(variable.shape))


@pytest.mark.few(0)
def test_units_do_not_change_the_fit(rng, tmp_path):
    """A fit to 1000 y + 5000 equals the fit to y, shifted and scaled."""
    x, y = data(rng)
    outputs, nll = [], []
    model = small_model()
    weights = model.get_weights()
    for unit, start in ((1, 0), (1000, 5000)):
        start_over(model, weights)
        target = unit * y + start
        model.adapt(target)
        fitted = model.fit(
            x, target, epochs=10, batch_size=32, shuffle=False, verbose=0
        )
        outputs.append(model.predict(x, verbose=0))
        nll.append(fitted.history["loss"][-1])
    (location, scale), (moved, stretched) = outputs
    np.testing.assert_allclose((moved - 5000) / 1000, location, atol=1e-4)
    np.testing.assert_allclose(stretched / 1000, scale, rtol=1e-4)
    assert nll[1] - nll[0] == pytest.approx(np.log(1000), abs=1e-4)
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(loaded(x)[0]), moved, rtol=1e-6
    )
    assert "unscaled_targets" not in kl.diagnose(model, x, target).names


@pytest.mark.parametrize("dimension", ["scalar", "channel", "element"])
@pytest.mark.parametrize("conditioning", ["predicted", "global"])
def test_head_starts_at_centre_and_spread(dimension, conditioning, rng):
    y = rng.normal(size=(50, 4, 2)) * [3.0, 300.0] + [10.0, -100.0]
    head = kl.layers.ScaleHead(
        2, dimension=dimension, conditioning=conditioning
    )
    features = np.zeros((5, 4, 3), "float32")
    before = [tuple(v.shape) for v in head(features)]
    head.adapt(y)
    prediction, scale = map(keras.ops.convert_to_numpy, head(features))
    assert [prediction.shape, scale.shape] == before
    rows = y.reshape(-1, 2)
    centre = np.median(rows, axis=0)
    np.testing.assert_allclose(prediction[0, 0], centre, rtol=1e-5)
    deviation = np.abs(rows - centre)
    if dimension == "scalar":
        deviation = deviation.reshape(-1, 1)
    spread = 1.4826 * np.median(deviation, axis=0)
    np.testing.assert_allclose(scale[0, 0], spread, rtol=1e-4)


def test_centre_and_spread(rng):
    y = rng.normal(size=101)
    wild = y.copy()
    wild[:20] = 1e9
    centre, spread = centre_and_spread(wild, 1)
    assert abs(centre[0]) < 0.5 and 0.7 < spread[0] < 2
    # Weights matter, and rows of weight zero may have any value.
    twice = centre_and_spread(np.repeat(y, 2), 1)
    weighted = centre_and_spread(y, 1, np.full(101, 2.0))
    np.testing.assert_allclose(twice, weighted)
    without = centre_and_spread(np.append(y, np.nan), 1, [1.0] * 101 + [0.0])
    np.testing.assert_allclose(without, centre_and_spread(y, 1))
    mostly_equal = np.where(np.arange(100) < 10, 7.0, 0.0)
    centre, spread = centre_and_spread(mostly_equal, 1)
    assert centre[0] == 0 and spread[0] == pytest.approx(7 * np.sqrt(0.1))
    assert centre_and_spread(np.full(5, 3.0), 1)[1] == 1
    with pytest.raises(ValueError, match="1 values not finite"):
        centre_and_spread(np.append(y, np.nan), 1)
    with pytest.raises(ValueError, match=r"\(n, ..., 2\)"):
        centre_and_spread(y, 2)
    with pytest.raises(ValueError, match="sample_weight"):
        centre_and_spread(y, 1, -np.ones(101))


def test_adapts_to_data_sets_and_dicts(rng):
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            rows = slice(25 * index, 25 * index + 25)
            return np.zeros((25, 3)), y[rows], np.ones(25)

    y = 40 + 5 * rng.normal(size=(50, 1))
    expected = centre_and_spread(y, 1)
    inputs = keras.Input((3,))
    heads = {"a": kl.layers.ScaleHead(1), "b": kl.layers.ScaleHead(1)}
    one = kl.LikelihoodModel(inputs, heads["a"](inputs))
    for given in (Batches(), [(y[:20], y[:20]), (y[20:], y[20:])], y):
        for unit in heads["a"].target_units:
            unit.assign([7.0])
        one.adapt(given)
        found = [v.numpy() for v in heads["a"].target_units]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    one.adapt(kl.indexed(y + 1))
    found = [v.numpy() for v in heads["a"].target_units]
    assert found[0] == pytest.approx(expected[0] + 1)
    both = {name: head(inputs) for name, head in heads.items()}
    two = kl.LikelihoodModel(inputs, both)
    two.adapt({"a": y, "b": -y})
    found = [v.numpy() for v in heads["b"].target_units]
    assert found[0] == pytest.approx(-expected[0])
    with pytest.raises(ValueError, match=r"\['a', 'b'\].*ndarray"):
        two.adapt(y)


def test_adapt_says_what_it_is_for(rng):
    y = rng.normal(size=20)
    with pytest.raises(ValueError, match="location and a scale.*'softmax'"):
        kl.layers.TemperatureHead(3).adapt(y)
    with pytest.raises(ValueError, match="without an activation.*sigmoid"):
        kl.layers.ScaleHead(1, activation="sigmoid").adapt(y)
    inputs = keras.Input((3,))
    plain = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(inputs))
    with pytest.raises(ValueError, match="needs a model with a head"):
        plain.adapt(y)


def test_counts_start_at_their_mean(rng):
    y = rng.poisson(40.0, size=(200, 1)).astype("float32")
    head = kl.layers.LikelihoodHead("poisson", 1)
    with pytest.raises(ValueError, match="not built"):
        head.adapt(y)
    zeros = np.zeros((4, 3), "float32")
    head(zeros)
    head.adapt(y)
    start = keras.ops.convert_to_numpy(keras.tree.flatten(head(zeros))[0])
    np.testing.assert_allclose(start, y.mean(), rtol=1e-5)
    with pytest.raises(ValueError, match="must be strictly between"):
        head.adapt(-y)
