"""All kinds of models that Keras users build."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from tests import contracts


@pytest.fixture
def data(rng):
    x = rng.normal(size=(32, 3)).astype("float32")
    return x, x[:, :1] + 0.1 * rng.normal(size=(32, 1)).astype("float32")


def test_a_sequential_that_ends_in_a_head_keeps_all_outputs(data):
    x, y = data
    stock = keras.Sequential([keras.Input((3,)), kl.layers.ScaleHead(1)])
    model = kl.LikelihoodModel.from_model(stock)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    assert set(model.fit(x, y, verbose=0).history) == {"loss"}
    prediction, scale = model.predict(x, verbose=0)
    assert prediction.shape == scale.shape == (32, 1)


@keras.saving.register_keras_serializable("tests")
class ReturnsAHead(kl.LikelihoodModel):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.head = kl.layers.ScaleHead(1)

    def call(self, x):
        return self.head(x)


@keras.saving.register_keras_serializable("tests")
class LonePrediction(kl.LikelihoodModel):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)


def test_a_subclass_that_returns_a_head_learns_no_scale_beside(data, tmp_path):
    x, y = data
    model = ReturnsAHead()
    model.compile(
        "sgd",
        loss=kl.losses.NormalLoss(dimension="channel"),
        metrics=["mse", kl.metrics.Sharpness()],
    )
    history = model.fit(x, y, verbose=0).history
    assert set(history) == {"loss", "mse", "sharpness"}
    assert len(model.trainable_variables) == 4
    contracts.model_survives_saving(model, x, y, tmp_path / "m.keras")


def test_a_subclass_without_a_head_learns_its_scale(data, tmp_path):
    x, y = data
    model = LonePrediction()
    model.compile(
        keras.optimizers.SGD(0.2),
        loss=kl.losses.NormalLoss(dimension="channel"),
    )
    assert "scale" in model.fit(x, y, verbose=0).history
    assert len(model.trainable_variables) == 3
    learned = model.loss.parameter_values()["scale"]
    assert learned.shape == (1,) and learned != 1.0
    contracts.model_survives_saving(model, x, y, tmp_path / "m.keras")
    learned = model.loss.parameter_values()["scale"]
    model.save(tmp_path / "n.keras")
    again = keras.models.load_model(tmp_path / "n.keras", compile=False)
    again.compile("sgd", loss=kl.losses.NormalLoss(dimension="channel"))
    again.predict(x, verbose=0)
    found = again.loss.parameter_values()["scale"]
    np.testing.assert_allclose(found, learned, rtol=1e-6)


@keras.saving.register_keras_serializable("tests")
class MakesItsOwnGraph(kl.LikelihoodModel):
    def __init__(self, units=4, **kwargs):
        inputs = keras.Input((3,))
        hidden = keras.layers.Dense(units)(inputs)
        outputs = kl.layers.ScaleHead(1)(hidden)
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)
        self.units = units

    def get_config(self):
        return {"units": self.units}


@pytest.mark.usefixtures("step_by_step")
def test_a_subclass_may_give_its_graph_to_super(data, tmp_path):
    x, y = data
    model = MakesItsOwnGraph(units=5)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    model.fit(x, y, verbose=0)
    assert isinstance(model, MakesItsOwnGraph)
    contracts.model_survives_saving(model, x, y, tmp_path / "m.keras")
    # Classes that define `call` still work afterwards.
    other = ReturnsAHead()
    other.compile("sgd", loss=kl.losses.NormalLoss())
    other.fit(x, y, verbose=0)


@pytest.mark.usefixtures("step_by_step")
@pytest.mark.parametrize("weights", [2.0, [2.0], {"y": 2.0}])
def test_loss_weights_of_one_output(data, weights):
    x, y = data
    model = contracts.small_model(kl.layers.ScaleHead(1), x)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    plain = model.evaluate(x, y, verbose=0)
    model.compile("sgd", loss=kl.losses.NormalLoss(), loss_weights=weights)
    assert model.evaluate(x, y, verbose=0) == pytest.approx(2 * plain, rel=1e-5)


def test_a_function_may_be_the_loss_of_another_output(data):
    x, y = data
    inputs = keras.Input((3,))
    outputs = {key: keras.layers.Dense(1)(inputs) for key in ("a", "b")}
    model = kl.LikelihoodModel(inputs, outputs)
    own = kl.losses.NormalLoss(scale=1.0)
    model.compile("sgd", loss={"a": own, "b": lambda y, p: (y - p) ** 2})
    model.fit(x, {"a": y, "b": y}, verbose=0)
    found = model.evaluate(x, {"a": y, "b": y}, verbose=0, return_dict=True)
    gap = model.predict(x, verbose=0)["b"] - y
    assert found["b_loss"] == pytest.approx(np.mean(gap**2), rel=1e-5)


def test_summary_shows_what_the_loss_learns(data, capsys):
    x, _ = data
    model = contracts.small_model(keras.layers.Dense(1), x)
    lines = []
    model.compile("sgd", loss=kl.losses.RobustRhoLoss(shape=1.0))
    model.summary(print_fn=lambda line, **_: lines.append(line))
    assert any("scale: 1, learned by the loss" in line for line in lines)
    model.compile("sgd", loss=kl.losses.NormalLoss(kl.DataParameter(9)))
    model.summary()
    assert "one for each of 9 examples" in capsys.readouterr().out


@pytest.mark.usefixtures("step_by_step")
def test_predictions_have_names(data):
    x, _ = data
    model = contracts.small_model(kl.layers.RobustRhoHead(1), x)
    model.compile("sgd", loss=kl.losses.RobustRhoLoss())
    output = model.predict(x, verbose=0)
    prediction, shape, scale = output
    assert output.scale is scale and output.shape is shape
    np.testing.assert_array_equal(np.asarray(output), prediction)
    assert len(keras.tree.flatten(output)) == 3


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_the_wrappers_of_scikit_learn_take_a_head_model(data, kind):
    x, y = data
    inputs = keras.Input((3,))
    if kind == "regressor":
        head, loss = kl.layers.ScaleHead(1), kl.losses.NormalLoss()
        wrapper, target = keras.wrappers.SKLearnRegressor, y[:, 0]
    else:
        head, loss = kl.layers.TemperatureHead(2), kl.losses.SoftmaxLoss()
        wrapper = keras.wrappers.SKLearnClassifier
        target = (y[:, 0] > 0).astype("int32")
    model = kl.LikelihoodModel(inputs, head(inputs))
    model.compile(keras.optimizers.Adam(0.1), loss=loss)
    options = {"epochs": 30, "batch_size": 8, "verbose": 0}
    estimator = wrapper(model, fit_kwargs=options)
    estimator.fit(x, target)
    assert estimator.predict(x).shape == (32,)
    assert estimator.score(x, target) > 0.8
