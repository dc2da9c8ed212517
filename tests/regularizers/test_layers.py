"""Adaptive regularizers in the layers of Keras."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import regularizers
from tests import contracts


def prior():
    return regularizers.DRidge()


LAYERS = {
    "dense": lambda: keras.layers.Dense(3, kernel_regularizer=prior()),
    "einsum": lambda: keras.layers.EinsumDense(
        "abc,cd->abd", (None, 3), kernel_regularizer=prior()
    ),
    "conv": lambda: keras.layers.Conv1D(3, 2, kernel_regularizer=prior()),
    "gru": lambda: keras.layers.GRU(
        3, kernel_regularizer=prior(), recurrent_regularizer=prior()
    ),
}


def finish(inputs, hidden):
    if len(hidden.shape) == 3:
        hidden = keras.layers.GlobalAveragePooling1D()(hidden)
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(hidden))
    model.compile(contracts.momentum(), loss=kl.losses.NormalLoss())
    return model


def check(model, x, count, epochs=14):
    y = np.random.default_rng(0).standard_normal((len(x), 1))
    model.fit(x, y.astype("float32"), batch_size=8, epochs=epochs, verbose=0)
    rows = regularizers.report(model)
    assert len(rows) == count
    for row in rows:
        assert 0 <= row.effective <= 1
        assert row.scale > 0
    assert len({row.scale for row in rows}) == 1
    return rows


@pytest.mark.few(1)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_measured(name, rng):
    inputs = keras.Input((4, 5))
    model = finish(inputs, LAYERS[name]()(inputs))
    x = rng.standard_normal((32, 4, 5)).astype("float32")
    check(model, x, 2 if name == "gru" else 1)


@pytest.mark.few(0)
def test_an_embedding_is_measured(rng):
    inputs = keras.Input((4,), dtype="int32")
    embedding = keras.layers.Embedding(700, 3, embeddings_regularizer=prior())
    model = finish(inputs, embedding(inputs))
    check(model, rng.integers(0, 700, (32, 4)), 1)


def attention_model():
    inputs = keras.Input((4, 6))
    layer = keras.layers.MultiHeadAttention(2, 3, kernel_regularizer=prior())
    return finish(inputs, layer(inputs, inputs))


@pytest.mark.few(0)
def test_attention_makes_an_object_for_each_weight(rng, tmp_path):
    model = attention_model()
    x = rng.standard_normal((32, 4, 6)).astype("float32")
    # Two scales may have moved by the same largest step at first.
    rows = check(model, x, 4, epochs=60)
    weights = regularizers.adaptive_weights(model)
    assert len({id(w.regularizer) for w in weights}) == 4
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    _ = again.losses
    assert regularizers.report(again) == rows
    both = again, model
    np.testing.assert_allclose(
        *(contracts.outputs_and_loss(m, x, x[:, 0, :1])[1] for m in both),
        rtol=1e-5,
    )
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    _ = clone.losses
    assert [r.scale for r in regularizers.report(clone)] == [
        r.scale for r in rows
    ]


@pytest.mark.few(0)
def test_lora_weights_get_scales_of_their_own(rng, tmp_path):
    inputs = keras.Input((5,))
    dense = keras.layers.Dense(4, kernel_regularizer=prior())
    model = finish(inputs, dense(inputs))
    x = rng.standard_normal((32, 5)).astype("float32")
    _ = model.losses
    before = dense.kernel_regularizer.scale()
    dense.enable_lora(2)
    model.compile(contracts.momentum(), loss=kl.losses.NormalLoss())
    rows = check(model, x, 2)
    np.testing.assert_array_equal(dense.kernel_regularizer.scale(), before)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        *(contracts.as_numpy(m(x)) for m in (again, model)), rtol=1e-5
    )
    assert regularizers.report(again) == rows
    assert [r.path.split("/")[-1] for r in rows] == [
        "lora_kernel_a",
        "lora_kernel_b",
    ]


def test_two_arguments_of_a_layer_need_two_objects(rng):
    shared = prior()
    layer = keras.layers.GRU(
        3, kernel_regularizer=shared, recurrent_regularizer=shared
    )
    inputs = keras.Input((4, 5))
    with pytest.raises(ValueError, match="regularizer of its own. Received: "):
        finish(inputs, layer(inputs))


@pytest.mark.few(0)
def test_a_report_reads_as_a_table(rng):
    inputs = keras.Input((5,))
    dense = keras.layers.Dense(4, name="first", kernel_regularizer=prior())
    model = finish(inputs, dense(inputs))
    check(model, rng.standard_normal((32, 5)).astype("float32"), 1)
    header, row = str(regularizers.report(model)).splitlines()
    assert header.split() == (
        "weight prior weights effective off scale strength rows".split()
    )
    assert row.split()[:3] == ["first/kernel", "DRidge", "20"]
