"""Promises that every adaptive regularizer keeps, found by discovery."""

import functools

import keras
import numpy as np
import pytest
from keras import ops
from scipy import stats

from keras_likelihood import regularizers
from tests.autodiff import gradients
from tests.contracts import EAGERLY, model_survives_saving, momentum

ALL = [
    getattr(regularizers, name)
    for name in regularizers.__all__
    if isinstance(getattr(regularizers, name), type)
    and issubclass(
        getattr(regularizers, name), regularizers.AdaptiveRegularizer
    )
    and name != "AdaptiveRegularizer"
]
LASSO = [c for c in ALL if issubclass(c, regularizers.DLasso)]
every = pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)

OTHER = {
    "num_examples": 40,
    "initial_scale": 0.3,
}


@pytest.fixture
def weight(rng):
    return rng.normal(size=(6, 3)).astype("float32")


@pytest.fixture
def data(rng):
    x = rng.normal(size=(32, 6)).astype("float32")
    y = x[:, :2] @ np.ones((2, 1)) + 0.3 * rng.normal(size=(32, 1))
    return x, y.astype("float32")


def number(tensor):
    return float(ops.convert_to_numpy(tensor))


def sequential(cls, **options):
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(
                4,
                activation="tanh",
                kernel_regularizer=cls(num_examples=32),
            ),
            keras.layers.Dense(
                1, kernel_regularizer=cls(num_examples=32, **options)
            ),
        ]
    )


@functools.cache
def trained(cls):
    """A model that several tests read, `(model, data)`, and none changes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 6)).astype("float32")
    y = x[:, :2] @ np.ones((2, 1)) + 0.3 * rng.normal(size=(32, 1))
    data = x, y.astype("float32")
    model = sequential(cls)
    model.compile(momentum(), loss="mse")
    model.fit(*data, batch_size=4, epochs=4, callbacks=[learn(data)], verbose=0)
    return model, data


def learn(data):
    return regularizers.LearnScales(held_out=data)


def scales(model):
    return [w.regularizer.scale() for w in regularizers.adaptive_weights(model)]


@every
def test_value_is_the_complete_prior(cls, weight):
    regularizer = cls(num_examples=40, initial_scale=0.3)
    prior = stats.laplace if cls in LASSO else stats.norm
    expected = -prior(scale=0.3).logpdf(weight.astype("float64")).sum() / 40
    np.testing.assert_allclose(number(regularizer(weight)), expected, rtol=1e-5)


@every
def test_weights_feel_the_prior_alone(cls, weight):
    regularizer = cls(num_examples=40, initial_scale=0.3)
    regularizer.build(weight.shape)
    (found,) = gradients(regularizer, weight)
    expected = np.sign(weight) / 0.3 if cls in LASSO else weight / 0.3**2
    np.testing.assert_allclose(found, expected / 40, rtol=1e-4)


@every
def test_strength_is_that_of_the_keras_regularizer(cls, weight):
    regularizer = cls(**OTHER)
    regularizer.build(weight.shape)
    strength = float(regularizer.strength().flat[0])
    stock = keras.regularizers.L1 if cls in LASSO else keras.regularizers.L2
    (found,) = gradients(regularizer, weight)
    (expected,) = gradients(stock(strength), weight)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@every
def test_config_keeps_every_argument(cls, weight):
    regularizer = cls(**OTHER)
    twin = keras.regularizers.get(keras.regularizers.serialize(regularizer))
    assert type(twin) is cls
    np.testing.assert_allclose(
        number(twin(weight)), number(regularizer(weight)), rtol=1e-6
    )
    np.testing.assert_allclose(twin.scale(), 0.3, rtol=1e-6)
    np.testing.assert_array_equal(
        twin.switched_off(0.03 * weight),
        regularizer.switched_off(0.03 * weight),
    )


@pytest.mark.few(1)
@every
def test_scales_survive_saving(cls, data, tmp_path):
    model = sequential(cls)
    model.compile(keras.optimizers.Adam(0.02), loss="mse", run_eagerly=EAGERLY)
    model.fit(*data, batch_size=4, epochs=4, callbacks=[learn(data)], verbose=0)
    expected = scales(model)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for old, new in zip(expected, scales(again), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-6)
        assert not np.allclose(new, 1.0)
    model_survives_saving(model, *data, tmp_path / "again.keras")


@pytest.mark.few(0)
@every
def test_clones_have_scales_of_their_own(cls):
    model, data = trained(cls)
    clone = keras.models.clone_model(model)
    clone.compile(keras.optimizers.Adam(0.1), loss="mse", run_eagerly=EAGERLY)
    clone.set_weights(model.get_weights())
    for old, new in zip(scales(model), scales(clone), strict=True):
        np.testing.assert_allclose(new, old)
    before = scales(model)
    clone.fit(*data, batch_size=4, epochs=4, callbacks=[learn(data)], verbose=0)
    for old, now, new in zip(before, scales(model), scales(clone), strict=True):
        np.testing.assert_array_equal(now, old)
        assert not np.allclose(new, old)


@pytest.mark.few(1)
@every
def test_weights_files_keep_the_scales(cls, tmp_path):
    model, data = trained(cls)
    model.save_weights(tmp_path / "model.weights.h5")
    fresh = sequential(cls)
    _ = fresh.losses
    for old, new in zip(scales(model), scales(fresh), strict=True):
        assert not np.allclose(new, old, rtol=1e-7)
    fresh.load_weights(tmp_path / "model.weights.h5")
    for old, new in zip(scales(model), scales(fresh), strict=True):
        np.testing.assert_allclose(new, old)


def test_a_shared_layer_is_one_weight(data):
    x, y = data
    layer = keras.layers.Dense(
        1, kernel_regularizer=regularizers.MultiLasso(num_examples=32)
    )
    first, second = keras.Input((6,)), keras.Input((6,))
    model = keras.Model([first, second], [layer(first) + layer(second)])
    model.compile("adam", loss="mse", run_eagerly=EAGERLY)
    held_out = regularizers.LearnScales(held_out=([x, x], y))
    model.fit([x, x], y, epochs=2, callbacks=[held_out], verbose=0)
    assert len(regularizers.adaptive_weights(model)) == 1
    assert len(model.losses) == 1


@pytest.mark.few(1)
@every
def test_mixed_precision_keeps_scales_in_float32(cls, data, mixed_precision):
    model = sequential(cls)
    # One traced step in each precision stands for the others.
    eagerly = EAGERLY and cls is not regularizers.MultiLasso
    adam = keras.optimizers.Adam(0.01)
    model.compile(adam, loss="mse", run_eagerly=eagerly)
    history = model.fit(
        *data, batch_size=4, epochs=4, callbacks=[learn(data)], verbose=0
    ).history
    assert np.all(np.isfinite(history["loss"]))
    for weight in regularizers.adaptive_weights(model):
        assert weight.regularizer.log_scale.dtype == "float32"
        assert not np.allclose(weight.regularizer.scale(), 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_examples": 1}, "`num_examples` must be a finite number > 1"),
        ({"initial_scale": 0.0}, "`initial_scale` must be a finite number > 0"),
        ({"objective": "evidence"}, "`objective` must be one of .* Received"),
        ({"group": "row"}, "`group` must be one of .* Received: 'row'"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        regularizers.DLasso(**{"num_examples": 10, **options})


def test_an_unbuilt_regularizer_says_so():
    with pytest.raises(ValueError, match="has no scales yet"):
        regularizers.DLasso(num_examples=10).scale()
