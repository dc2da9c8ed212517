"""Data parameters give the same numbers after saving, loading, resuming."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters import SparseRMSProp

JIT = keras.backend.backend() == "jax"


@pytest.fixture
def data(rng):
    x = rng.normal(size=(16, 2)).astype("float32")
    return x, rng.normal(size=(16, 2)).astype("float32")


def make(**options):
    scale = kl.DataParameter(
        16, optimizer=SparseRMSProp(momentum=0.5), **options
    )
    inputs = keras.Input((2,))
    outputs = keras.layers.Dense(2, kernel_initializer="ones")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(0.05),
        loss=kl.losses.NormalLoss(scale=scale),
        jit_compile=JIT,
    )
    return model, scale


def fit(model, data, callbacks, **options):
    x, y = data
    options = {"batch_size": 4, "shuffle": False, "verbose": 0, **options}
    model.fit(x, kl.indexed(y), callbacks=callbacks, **options)


@pytest.mark.few(0)
@pytest.mark.parametrize("dimension", ["scalar", "element"])
def test_saved_model_goes_on_where_it_stopped(data, dimension, tmp_path):
    model, scale = make(dimension=dimension)
    fit(model, data, [scale], epochs=2)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = loaded.data_parameters["scale"]
    np.testing.assert_array_equal(again.values(), scale.values())
    for m, s in ((model, scale), (loaded, again)):
        fit(m, data, [s])
    np.testing.assert_allclose(again.state(), scale.state(), rtol=1e-6)
    np.testing.assert_allclose(
        loaded.get_weights()[0], model.get_weights()[0], rtol=1e-6
    )


@pytest.mark.one_backend
def test_config_keeps_every_argument():
    scale = kl.DataParameter(
        5,
        learning_rate=0.2,
        dimension="channel",
        initial=0.7,
        constraint=kl.constraints.Softplus(0.1),
        fallback="mean",
        optimizer=SparseRMSProp(
            rho=0.8, epsilon=1e-9, momentum=0.3, weight_decay=0.1
        ),
    )
    config = scale.get_config()
    vector = kl.DataParameter(5, initial=np.ones(2))
    assert vector.get_config()["initial"] == [1, 1]
    default = kl.DataParameter(4).get_config()
    changed = default.keys() - {"table"}
    assert all(config[name] != default[name] for name in changed)
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(scale)
    )
    assert again.get_config() == config
    assert again.constraint == scale.constraint


def test_recompiling_keeps_the_table(data):
    model, scale = make()
    fit(model, data, [scale])
    before = scale.values()
    model.compile(
        "sgd", loss=kl.losses.NormalLoss(scale=scale), jit_compile=JIT
    )
    np.testing.assert_array_equal(scale.values(), before)
    fit(model, data, [scale])
    assert np.all(scale.values() != before)


@pytest.mark.parametrize(
    ("name", "loss", "options"),
    [
        ("initial", kl.losses.NormalLoss, {"initial": 3.0}),
        ("constraint", kl.losses.NormalLoss, {"constraint": "exp"}),
        ("likelihood", kl.losses.LaplaceLoss, {}),
    ],
)
def test_rows_of_another_parameter(data, tmp_path, name, loss, options):
    """Their rows would be other values, without a sign of it."""
    model, scale = make()
    fit(model, data, [scale])
    model.save_weights(tmp_path / "model.weights.h5")
    model.save(tmp_path / "model.keras")

    def other():
        return loss(scale=kl.DataParameter(16, **options))

    wrong, _ = make()
    wrong.compile("sgd", loss=other())
    with pytest.raises(ValueError, match=f"not match this table.*'{name}'"):
        wrong.load_weights(tmp_path / "model.weights.h5")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    with pytest.raises(ValueError, match=f"not match this table.*'{name}'"):
        loaded.compile("sgd", loss=other())
    again = kl.DataParameter(16, optimizer=SparseRMSProp(momentum=0.5))
    loaded.compile("sgd", loss=kl.losses.NormalLoss(scale=again))
    np.testing.assert_array_equal(again.values(), scale.values())


def test_weights_with_nan_in_their_rows(data, tmp_path):
    model, scale = make()
    fit(model, data, [scale])
    before = scale.state()
    saved = scale.saved()
    rows = saved["rows"]
    saved["rows"] = np.where(rows == rows.max(), np.nan, rows)
    with pytest.raises(kl.FileError, match="1 of 16 rows with NaN"):
        scale.restore(saved)
    np.testing.assert_array_equal(scale.state(), before)
