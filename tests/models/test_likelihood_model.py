import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from tests import contracts
from tests.contracts import EAGERLY, as_numpy


@pytest.fixture
def data(rng):
    x = rng.normal(size=(64, 3)).astype("float32")
    y = x[:, :1] - 0.5 * x[:, 1:2] + 0.1 * rng.normal(size=(64, 1))
    return x, y.astype("float32")


def scale_model(x, **options):
    return contracts.small_model(kl.layers.ScaleHead(1, **options), x)


def test_one_loss_gets_the_whole_tuple_and_metrics_the_prediction(data):
    x, y = data
    model = scale_model(x)
    model.compile(
        "sgd",
        loss=kl.losses.NormalLoss(),
        metrics=["mse"],
        weighted_metrics=["mae"],
    )
    history = model.fit(x, y, validation_split=0.25, verbose=0).history
    assert set(history) == {
        f"{prefix}{name}"
        for prefix in ("", "val_")
        for name in ("loss", "mse", "mae")
    }
    prediction, scale = model.predict(x, verbose=0)
    result = model.evaluate(x, y, verbose=0, return_dict=True)
    assert result["mse"] == pytest.approx(((prediction - y) ** 2).mean(), 1e-4)
    nll = as_numpy(kl.likelihoods.Normal(prediction, scale=scale).nll(y))
    assert result["loss"] == pytest.approx(nll.mean(), rel=1e-4)


def test_learned_parameters_are_logged_and_right(rng):
    """The global scale converges to the root mean squared residual."""
    y = 0.3 * rng.normal(size=(256, 1)).astype("float32")
    # Many steps in few epochs, because each epoch is slow.
    y = np.tile(y, (30, 1))
    x = np.zeros((len(y), 2), dtype="float32")
    inputs = keras.Input((2,))
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(inputs))
    model.compile(keras.optimizers.Adam(0.05), loss=kl.losses.NormalLoss())
    history = model.fit(
        x, y, epochs=2, batch_size=256, shuffle=False, verbose=0
    ).history
    assert history["scale"][-1] == pytest.approx(y.std(), rel=0.05)
    learned = model.loss.parameter_values()["scale"]
    assert learned == pytest.approx(history["scale"][-1], rel=0.05)


def test_the_first_fit_traces_one_step(data):
    """TensorFlow traces again if a step creates optimizer variables."""
    x, y = data
    steps, built = [], []

    class Counted(kl.LikelihoodModel):
        def compute_loss(self, *args, **kwargs):
            steps.append(1)
            return super().compute_loss(*args, **kwargs)

    inputs = keras.Input((3,))
    model = Counted(inputs, kl.layers.ScaleHead(1)(inputs))
    model.compile("adam", loss=kl.losses.NormalLoss())
    note = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: built.append(model.optimizer.built)
    )
    model.fit(x, y, batch_size=64, verbose=0, callbacks=[note])
    assert built == [True]
    if keras.backend.backend() == "tensorflow":
        assert len(steps) == 1


@pytest.mark.usefixtures("step_by_step")
def test_compiling_again_forgets_the_old_loss(data):
    x, y = data
    model = contracts.small_model(keras.layers.Dense(1), x)
    weights = len(model.trainable_variables)
    model.compile("sgd", loss=kl.losses.RobustRhoLoss())
    assert len(model.trainable_variables) == weights + 2
    model.fit(x, y, verbose=0)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    assert len(model.trainable_variables) == weights + 1
    assert set(model.fit(x, y, verbose=0).history) == {"loss", "scale"}
    model.compile("sgd", loss="mse")
    assert len(model.trainable_variables) == weights
    assert set(model.fit(x, y, verbose=0).history) == {"loss"}


def test_layer_losses_and_loss_weights_count(data):
    x, y = data
    inputs = keras.Input((3,))
    dense = keras.layers.Dense(1, kernel_regularizer=keras.regularizers.L2(0.1))
    model = kl.LikelihoodModel(inputs, dense(inputs))
    loss = kl.losses.NormalLoss(1.0)
    model.compile("sgd", loss=loss, loss_weights=2.0)
    expected = 2 * as_numpy(loss(y, model(x)))
    expected += 0.1 * (as_numpy(dense.kernel.value) ** 2).sum()
    assert model.evaluate(x, y, verbose=0) == pytest.approx(expected, rel=1e-5)


def test_a_dict_of_outputs_has_a_dict_of_losses(data, tmp_path):
    x, y = data
    label = (y[:, 0] > 0).astype("int32")
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(5, activation="tanh")(inputs)
    model = kl.LikelihoodModel(
        inputs,
        {
            "value": kl.layers.ScaleHead(1)(hidden),
            "other": keras.layers.Dense(1)(hidden),
            "label": kl.layers.TemperatureHead(2)(hidden),
        },
    )
    model.compile(
        contracts.momentum(),
        loss={
            "value": kl.losses.NormalLoss(),
            "other": kl.losses.LaplaceLoss(),
            "label": kl.losses.SoftmaxLoss(),
        },
        metrics={"label": ["accuracy"], "value": ["mse"]},
    )
    targets = {"value": y, "other": y, "label": label}
    history = model.fit(x, targets, verbose=0).history
    assert {"label_accuracy", "value_mse", "other_scale"} <= set(history)
    assert "value_scale" not in history
    contracts.training_moves_every_weight(model, x, targets)
    contracts.model_survives_saving(model, x, targets, tmp_path / "model.keras")
    distributions = model.predict_distribution(x, verbose=0)
    assert isinstance(distributions["value"], kl.likelihoods.Normal)
    assert isinstance(distributions["label"], kl.likelihoods.Softmax)


def test_a_stock_model_takes_a_head_in_a_dict(data):
    x, y = data
    inputs = keras.Input((3,))
    head = kl.layers.ScaleHead(1)
    model = keras.Model(inputs, {"y": head(inputs)})
    model.compile("sgd", loss={"y": kl.losses.NormalLoss()})
    contracts.training_moves_every_weight(model, x, {"y": y})


@pytest.mark.usefixtures("step_by_step")
def test_from_model_shares_weights(data):
    x, y = data
    inputs = keras.Input((3,))
    stocks = [
        keras.Sequential([inputs, keras.layers.Dense(1)]),
        keras.Model(inputs, keras.layers.Dense(1)(inputs)),
    ]
    for stock in stocks:
        model = kl.LikelihoodModel.from_model(stock)
        model.compile("sgd", loss=kl.losses.RobustRhoLoss("global", "global"))
        contracts.training_moves_every_weight(model, x, y)
        contracts.assert_equal_outputs(
            stock.predict(x, verbose=0), model.predict(x, verbose=0)
        )


def test_from_model_refuses_a_model_without_a_graph():
    class Subclassed(keras.Model):
        pass

    with pytest.raises(ValueError, match="Received: Subclassed"):
        kl.LikelihoodModel.from_model(Subclassed())


@pytest.mark.parametrize("dimension", ["scalar", "element"])
def test_a_subclassed_model_learns_its_loss(data, dimension):
    x, y = data

    class Line(kl.LikelihoodModel):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, inputs):
            return self.dense(inputs)

    model = Line()
    model.compile("sgd", loss=kl.losses.NormalLoss(dimension=dimension))
    history = model.fit(x, y, epochs=2, verbose=0).history
    assert len(model.trainable_variables) == 3
    assert history["scale"][-1] != 1.0


@pytest.mark.usefixtures("step_by_step")
def test_predict_distribution_is_one_call_from_intervals(data):
    x, y = data
    model = scale_model(x)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    distribution = model.predict_distribution(x, verbose=0)
    prediction, scale = model.predict(x, verbose=0)
    low, high = map(as_numpy, distribution.interval(0.9))
    np.testing.assert_allclose(low, prediction - 1.644854 * scale, rtol=1e-3)
    np.testing.assert_allclose(high, prediction + 1.644854 * scale, rtol=1e-3)


def test_bad_use_is_refused(data):
    x, y = data
    model = scale_model(x)
    with pytest.raises(ValueError, match="with parameters.*loss='mse'"):
        model.compile("sgd", loss="mse")
    with pytest.raises(ValueError, match="`loss` and the outputs have diff"):
        model.compile("sgd", loss=[kl.losses.NormalLoss("global")] * 3)
    model = scale_model(x)
    inputs = keras.Input((3,))
    plain = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(inputs))
    plain.compile("sgd", loss="mse")
    with pytest.raises(ValueError, match="likelihood loss. Received"):
        plain.predict_distribution(x)
    named = kl.LikelihoodModel(inputs, {"y": kl.layers.ScaleHead(1)(inputs)})
    with pytest.raises(ValueError, match=r"one part for each.*\['y'\]"):
        named.compile("sgd", loss=kl.losses.NormalLoss(scale=1.0))
    with pytest.raises(ValueError, match="flat dict or list.*Received: "):
        named.compile("sgd", loss={"y": {"z": kl.losses.NormalLoss()}})


def test_tf_data_and_sample_weight(data):
    tf = pytest.importorskip("tensorflow")
    x, y = data
    weight = np.linspace(0, 1, len(x)).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices((x, y, weight)).batch(64)

    def trained(*args, **kwargs):
        keras.utils.set_random_seed(1)
        model = scale_model(x)
        model.compile(keras.optimizers.SGD(0.1), loss=kl.losses.NormalLoss())
        model.fit(*args, epochs=3, verbose=0, shuffle=False, **kwargs)
        return model.predict(x, verbose=0)

    contracts.assert_equal_outputs(
        trained(dataset),
        trained(x, y, sample_weight=weight, batch_size=64),
        rtol=1e-4,
    )


def test_mixed_precision_learns_a_global_scale(data, mixed_precision):
    x, y = data
    model = contracts.small_model(keras.layers.Dense(1, dtype="float32"), x)
    model.compile(keras.optimizers.SGD(0.1), loss=kl.losses.RobustRhoLoss())
    contracts.training_moves_every_weight(model, x, y)


@pytest.mark.usefixtures("step_by_step")
def test_images_with_channel_parameters(rng):
    x = rng.normal(size=(4, 8, 8, 3)).astype("float32")
    inputs = keras.Input((8, 8, 3))
    maps = keras.layers.Conv2D(4, 3, padding="same")(inputs)
    outputs = kl.layers.RobustRhoHead(
        3, conditioning={"shape": "global"}, dimension={"scale": "channel"}
    )(maps)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("sgd", loss=kl.losses.RobustRhoLoss())
    contracts.training_moves_every_weight(model, x, x)
    shapes = [v.shape for v in model.predict(x, verbose=0)]
    assert shapes == [(4, 8, 8, 3), (4, 8, 8, 3), (4, 1, 1, 3)]
    assert tuple(ops.shape(model.output[1]))[1:] == (8, 8, 3)


def test_an_h5_file_needs_no_custom_objects(data, tmp_path):
    x, y = data
    model = scale_model(x)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    model.save(tmp_path / "model.h5")
    loaded = keras.saving.load_model(tmp_path / "model.h5")
    assert type(loaded).__name__ == type(model).__name__
    contracts.assert_equal_outputs(
        loaded.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-6
    )


class Twins(keras.Layer):
    """A sum of two weights with the same name."""

    def build(self, shape):
        self.pair = [
            self.add_weight(name="twin", shape=(shape[-1], 1)) for _ in range(2)
        ]

    def call(self, x):
        return x @ self.pair[0] + x @ self.pair[1]


def test_weights_of_one_name_train_alike():
    """PyTorch accumulates gradients that are not cleared."""
    inputs = keras.Input((3,))
    model = kl.LikelihoodModel(inputs, Twins()(inputs))
    loss = kl.losses.NormalLoss(scale=1.0)
    model.compile(keras.optimizers.SGD(0.1), loss, run_eagerly=EAGERLY)
    x = np.eye(3, dtype="float32")
    before = model.get_weights()
    model.fit(x, x[:, :1], epochs=3, verbose=0)
    one, other = (
        after - start
        for after, start in zip(model.get_weights(), before, strict=True)
    )
    np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="others compile the rest"
)
def test_layers_that_prevent_compilation_are_named(rng):
    inputs = keras.Input((4, 4, 1))
    turned = keras.layers.RandomRotation(0.1)
    h = keras.Sequential([turned, keras.layers.Flatten()])(inputs)
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(h))
    with pytest.warns(UserWarning, match="random_rotation.*supports_jit") as r:
        model.compile("sgd", loss=kl.losses.NormalLoss())
    assert r[0].filename == __file__
    model.compile("sgd", loss=kl.losses.NormalLoss(), jit_compile=False)
    turned.supports_jit = True
    model.compile("sgd", loss=kl.losses.NormalLoss())
    model.fit(rng.random((8, 4, 4, 1)), np.ones((8, 1)), verbose=0)
    assert model.jit_compile
