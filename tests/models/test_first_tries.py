"""What users write first either works as in Keras or raises an error."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from tests import contracts
from tests.contracts import as_numpy

pytestmark = pytest.mark.usefixtures("step_by_step")
BACKEND = keras.backend.backend()


@pytest.fixture
def x(rng):
    return rng.normal(size=(32, 4)).astype("float32")


def model_of(layer, x, loss, optimizer="sgd", **options):
    keras.utils.set_random_seed(0)
    model = contracts.small_model(layer, x)
    model.compile(optimizer, loss=loss, **options)
    return model


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("mode", ["int8", "int4", "float8"])
@pytest.mark.parametrize("first", ["compile", "quantize"])
def test_quantized_models_with_a_head_load_again(mode, first, x, tmp_path):
    keras.utils.set_random_seed(0)
    model = contracts.small_model(kl.layers.ScaleHead(2, hidden_units=4), x)
    if first == "quantize":
        model.quantize(mode)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    if first == "compile":
        model.quantize(mode)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    contracts.assert_equal_outputs(
        model.predict(x, verbose=0), again.predict(x, verbose=0), rtol=1e-6
    )


@pytest.mark.parametrize("dimension", ["scalar", "channel", "element"])
@pytest.mark.parametrize("name", ["normal", "student_t", "poisson", "softmax"])
@pytest.mark.parametrize("shape", [(4,), (5, 4)])
def test_output_shapes_are_known_without_a_call(name, shape, dimension):
    if name == "softmax" and dimension == "channel":
        return
    head = kl.layers.LikelihoodHead(name, 3, dimension=dimension)
    expected = head.compute_output_shape((2, *shape))
    found = keras.tree.map_structure(
        lambda v: tuple(v.shape), head(np.ones((2, *shape), "float32"))
    )
    assert found == expected


def test_count_params_includes_the_loss(x):
    model = model_of(keras.layers.Dense(1), x, kl.losses.StudentTLoss())
    plain = keras.Model(model.inputs, model.outputs)
    assert model.count_params() == plain.count_params() + 2


def ends(kind, units):
    def layer(h):
        dense = keras.layers.Dense(units)
        if kind == "layer":
            return keras.layers.Dense(units, activation="softmax")(h)
        if kind == "sigmoid":
            return keras.layers.Dense(units, activation="sigmoid")(h)
        if kind == "operation":
            return keras.ops.softmax(dense(h))
        if kind == "nested":
            inner = keras.Sequential([dense, keras.layers.Softmax()])
            return inner(h)
        return dense(h)

    return layer


@pytest.mark.parametrize("kind", ["layer", "operation", "nested", "sigmoid"])
def test_probabilities_under_a_loss_of_logits_are_an_error(kind, x):
    units = 1 if kind == "sigmoid" else 3
    loss = kl.losses.BernoulliLoss() if units == 1 else kl.losses.SoftmaxLoss()
    with pytest.raises(
        ValueError, match="needs logits. Remove the s.*Received"
    ):
        model_of(ends(kind, units), x, loss)
    model_of(ends("logits", units), x, loss)


def test_new_validation_rows_have_no_index(x):
    scale = kl.DataParameter(32)
    model = model_of(keras.layers.Dense(1), x, kl.losses.NormalLoss(scale))
    y = x[:, :1]
    before = model.get_weights()
    with pytest.raises(
        ValueError, match="`validation_data` with the rows 0 to 7"
    ):
        model.fit(
            x,
            kl.indexed(y),
            validation_data=(x[:8] + 1, kl.indexed(y[:8])),
            verbose=0,
        )
    contracts.assert_equal_outputs(model.get_weights(), before)
    rows = np.arange(8, 16)
    for held_out in (
        (x[:8] + 1, y[:8]),
        (x[rows], kl.indexed(y[rows], index=rows)),
        (x, kl.indexed(y)),
    ):
        model.fit(x, kl.indexed(y), validation_data=held_out, verbose=0)


@pytest.mark.parametrize("excluded", [False, True])
def test_weight_decay_leaves_the_parameters_of_the_loss(excluded, x):
    """As the gradient is zero, the decay alone would move them."""

    class Constant(kl.losses.NormalLoss):
        def elementwise(self, distribution, y_true):
            return 0.0 * super().elementwise(distribution, y_true)

    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    model = contracts.small_model(keras.layers.Dense(1, use_bias=False), x)
    kernel = model.layers[-1].kernel
    if excluded:
        optimizer.exclude_from_weight_decay([kernel])
    model.compile(optimizer, loss=Constant())
    model.loss_parameters.learned()["scale"].latest = 3.0
    before = as_numpy(kernel.value)
    model.fit(x, x[:, :1], epochs=2, verbose=0)
    assert model.loss.parameter_values()["scale"] == pytest.approx(3.0)
    assert np.array_equal(as_numpy(kernel.value), before) == excluded


@pytest.mark.parametrize("kind", ["arrays", "generator"])
def test_nan_in_the_inputs_does_not_cost_the_weights(kind, x):
    bad = x.copy()
    bad[3, 0] = np.nan
    model = model_of(kl.layers.ScaleHead(1), x, kl.losses.NormalLoss(), "adam")
    y = x[:, :1]
    model.fit(x, y, verbose=0)
    before = model.get_weights()
    slots = [as_numpy(v.value) for v in model.optimizer.variables]
    data = [(bad[i : i + 8], y[i : i + 8]) for i in (0, 8, 16, 24)]
    with pytest.raises(ValueError, match="loss is NaN.*Received"):
        if kind == "arrays":
            model.fit(bad, y, batch_size=8, shuffle=False, verbose=0)
        else:
            model.fit((batch for batch in data), verbose=0, shuffle=False)
    contracts.assert_equal_outputs(model.get_weights(), before, rtol=1e-6)
    after = [as_numpy(v.value) for v in model.optimizer.variables]
    contracts.assert_equal_outputs(after, slots, rtol=1e-6)
    history = model.fit(x, y, verbose=0).history
    assert np.isfinite(history["loss"]).all()


@pytest.mark.parametrize("unit", [1e-30, 1e-20, 1e25])
def test_extreme_units_do_not_change_the_fit(unit, x):
    """`fit` of `unit * y` equals `fit` of `y`, in its units."""
    y = x[:, :1]
    found = []
    for factor in (1.0, unit):
        keras.utils.set_random_seed(0)
        model = model_of(
            kl.layers.ScaleHead(1), x, kl.losses.NormalLoss(), "adam"
        )
        model.adapt(factor * y)
        history = model.fit(
            x, factor * y, epochs=3, shuffle=False, verbose=0
        ).history["loss"]
        prediction, scale = model.predict(x, verbose=0)
        found.append(
            (
                np.array(history) - np.log(factor),
                prediction / factor,
                scale / factor,
            )
        )
    contracts.assert_equal_outputs(*found, rtol=1e-4, atol=1e-5)


def test_a_shared_head_has_the_units_of_one_target(x):
    inputs = [keras.Input((4,)) for _ in range(2)]
    head = kl.layers.ScaleHead(1)
    outputs = {k: head(i) for k, i in zip("ab", inputs, strict=True)}
    model = kl.LikelihoodModel(inputs, outputs)
    y = x[:, :1]
    with pytest.raises(ValueError, match="only one of its outputs.*Received"):
        model.adapt({"a": y, "b": 100 * y})
    model.adapt({"a": 100 * y})
    found = [v.numpy() for v in head.target_units][0]
    assert found == pytest.approx(100 * np.median(y), rel=1e-4)


@pytest.mark.parametrize("shape", [(32,), (32, 1)])
def test_predictions_without_units(shape, x):
    """A subclassed model may return `(batch,)`."""

    class Flat(kl.LikelihoodModel):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1, kernel_initializer="ones")

        def call(self, x):
            return self.dense(x)[:, 0]

    model = Flat()
    metric = kl.metrics.NegativeLogLikelihood()
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=1.0), metrics=[metric])
    y = x[:, 0].reshape(shape)
    weight = np.arange(32.0, dtype="float32")
    found = model.evaluate(x, y, sample_weight=weight, verbose=0)[0]
    error = x.sum(axis=1) - x[:, 0]
    nll = 0.5 * error**2 + 0.5 * np.log(2 * np.pi)
    assert found == pytest.approx(np.mean(weight * nll), rel=1e-5)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow only")
@pytest.mark.few(0)
def test_a_dict_of_heads_is_exported(x, tmp_path):
    import tensorflow as tf

    inputs = keras.Input((4,))
    outputs = {
        "a": kl.layers.ScaleHead(1)(inputs),
        "b": keras.layers.Dense(1)(inputs),
    }
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("sgd", loss={"a": kl.losses.NormalLoss(), "b": "mse"})
    model.export(tmp_path / "exported", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "exported")
    served = as_numpy(loaded.serve(x))
    expected = as_numpy(model(x))
    named = {"a": expected["a"][0], "a_scale": expected["a"][1]}
    for name, value in (named | {"b": expected["b"]}).items():
        np.testing.assert_allclose(served.pop(name), value, rtol=1e-5)
    assert not served


def test_generators_need_no_length(x):
    y = x[:, :1]
    scale = kl.DataParameter(32)
    model = model_of(keras.layers.Dense(1), x, kl.losses.NormalLoss(scale))
    numbered = kl.indexed(y)

    def batches():
        while True:
            for start in range(0, 32, 8):
                rows = slice(start, start + 8)
                yield (
                    x[rows],
                    keras.tree.map_structure(lambda v, r=rows: v[r], numbered),
                )

    model.fit(batches(), steps_per_epoch=4, epochs=2, verbose=0, shuffle=False)
    assert (scale.values() != 1).all()
