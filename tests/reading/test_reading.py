"""Every kind of model is read alike, as an object and from its file."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.likelihoods import Bernoulli, Normal, Softmax
from keras_likelihood.reading import (
    ModelGraph,
    load_model,
    read_model,
    read_output,
)
from keras_likelihood.reading.graphs import ClassifierGraph
from keras_likelihood.reading.targets import (
    are_probabilities,
    as_labels,
    as_targets,
)
from tests import kinds

pytestmark = pytest.mark.usefixtures("step_by_step")


def run(graph, x):
    found, _, _ = graph.run(x, np.zeros(len(x)))
    return found


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", kinds.KINDS)
def test_logits_and_features_of_every_shape(kind):
    # Half of them alternate, because each one is compiled.
    activation = ["softmax", "sigmoid"][kinds.KINDS.index(kind) % 2]
    if kind == "subclassed":
        activation = "softmax"
    x, _ = kinds.data(20)
    seen = kind != "subclassed"
    options = {"from_logits": None if seen else False}
    model = kinds.make(kind, activation=activation)
    graph = ClassifierGraph(model, x, "optional", **options)
    assert graph.multi_label is (seen and activation == "sigmoid")
    found = run(graph, x)
    assert ("features" in found) == seen
    if seen:
        np.testing.assert_allclose(
            found["features"], kinds.hidden_of(x), atol=1e-5
        )
    expected = kinds.logits_of(x)
    if not seen and activation == "softmax":
        expected -= np.log(np.exp(expected).sum(axis=1, keepdims=True))
    if seen or activation == "softmax":
        np.testing.assert_allclose(found["logits"], expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["backbone", "twice_nested"])
def test_named_features_are_found_in_models_within_models(kind):
    x, _ = kinds.data(10)
    graph = ModelGraph(kinds.make(kind), features="features")
    graph.tensors = graph.features()
    found = run(graph, x)["features"]
    np.testing.assert_allclose(found, kinds.hidden_of(x), atol=1e-5)
    with pytest.raises(ValueError, match="feature layer.*Received: 'absent'"):
        ModelGraph(kinds.make(kind), features="absent").features()


def test_a_loss_tells_what_a_subclass_puts_out():
    x, _ = kinds.data(10)
    model = kinds.make("subclassed", activation=None)
    with pytest.raises(ValueError, match="Received: Subclassed"):
        ClassifierGraph(model, x)
    crossentropy = keras.losses.SparseCategoricalCrossentropy
    model.compile("sgd", loss=crossentropy(from_logits=True))
    found = run(ClassifierGraph(model, x), x)["logits"]
    np.testing.assert_allclose(found, kinds.logits_of(x), atol=1e-4)
    with pytest.raises(ValueError, match="needs arrays as `x`"):
        ModelGraph(model)


def test_copies_have_everything_a_layer_holds():
    x, _ = kinds.data(32)
    normal = keras.layers.Normalization()
    normal.adapt(x * 3 + 1)
    model = keras.Sequential(
        [
            keras.Input((5,)),
            normal,
            keras.layers.Dense(4),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(3),
        ]
    )
    graph = ModelGraph(model)
    found = run(graph, x)["prediction"]
    np.testing.assert_allclose(found, model.predict(x, verbose=0), atol=1e-6)
    originals = {id(v) for v in model.variables}
    assert not originals & {id(v) for v in graph.graph.variables}


class Closed(keras.Model):
    """Its config does not contain the layer that it was given."""

    def __init__(self, layer=None):
        super().__init__()
        self.layer = layer or keras.layers.Dense(3)

    def call(self, x):
        return self.layer(x)


@pytest.mark.parametrize("inside", [False, True])
def test_models_that_cannot_be_copied_are_shared_with_a_warning(inside):
    x, _ = kinds.data(10)
    model = Closed(keras.layers.Dense(3, activation="softmax"))
    if inside:
        given = keras.Input((5,))
        model = keras.Model(given, model(given))
    with pytest.warns(UserWarning, match="shares its layers"):
        graph = ModelGraph(model, x)
    found = run(graph, x)["prediction"]
    np.testing.assert_allclose(found, model.predict(x, verbose=0), atol=1e-6)
    graph.extend(lambda: graph.prediction)
    assert model.trainable and all(v.trainable for v in model.weights)


def test_head_and_global_temperatures_are_in_the_logits(tmp_path):
    x, y = kinds.data()
    for conditioning in ("head", "global"):
        model = kinds.likelihood_classifier(conditioning)
        random = np.random.default_rng(0)
        model.set_weights(
            [random.normal(size=w.shape) for w in model.get_weights()]
        )
        fitted = model.predict_distribution(x, verbose=0)
        expected = keras.ops.convert_to_numpy(fitted.logits)
        prediction = keras.ops.convert_to_numpy(fitted.prediction)
        assert np.abs(expected - prediction).max() > 0.1
        model.save(tmp_path / "model.keras")
        for source in (model, tmp_path / "model.keras"):
            graph = ClassifierGraph(source)
            found = run(graph, x)["logits"]
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
            assert graph.likelihood is Softmax
            reading = read_output(source, x)
            np.testing.assert_allclose(
                reading.nll(y),
                keras.ops.convert_to_numpy(fitted.nll(y)),
                rtol=1e-4,
                atol=1e-5,
            )


@pytest.mark.parametrize("kind", ["sequential", "twice_nested"])
def test_readings_know_the_likelihood_of_stock_models(kind):
    x, y = kinds.data(30)
    reading = read_output(kinds.make(kind), x)
    assert reading.kind == "softmax" and reading.likelihood is None
    told = reading.with_likelihood(y)
    assert told.likelihood is Softmax
    expected = kinds.logits_of(x)
    difference = told.prediction - expected
    np.testing.assert_allclose(difference.std(axis=1), 0, atol=1e-4)
    sigmoid = read_output(kinds.make(kind, 1, "sigmoid"), x)
    told = sigmoid.with_likelihood((y > 0).astype(int))
    assert told.likelihood is Bernoulli
    np.testing.assert_allclose(
        told.prediction, kinds.logits_of(x, 1), rtol=1e-2, atol=1e-3
    )
    regressor = read_output(kinds.make(kind, 1, "linear"), x)
    told = regressor.with_likelihood(0.5 + y)
    assert told.likelihood is Normal
    # A single output has only two classes.
    counts = regressor.with_likelihood(np.arange(30))
    assert counts.likelihood is Normal
    with pytest.raises(ValueError, match="may be classes or quantities"):
        regressor.with_likelihood(np.arange(30) % 2)


def test_readings_say_where_parameters_come_from():
    x, _ = kinds.data(30)
    given = keras.Input((5,))
    heads = {
        "a": kl.layers.ScaleHead(1, initial=0.5)(given),
        "b": keras.layers.Dense(2)(given),
        "c": keras.layers.Dense(1)(given),
    }
    model = kl.LikelihoodModel(given, heads)
    losses = {
        "a": kl.losses.NormalLoss(),
        "b": kl.losses.StudentTLoss(df=3.0),
        "c": kl.losses.LaplaceLoss(scale=kl.DataParameter(30)),
    }
    model.compile("sgd", loss=losses)
    a, b, c = read_model(model, x)
    assert [p.source for p in a.parameters] == ["predicted"]
    assert a.parameters[0].initial == 0.5
    assert [p.source for p in b.parameters] == ["fixed", "global"]
    assert c.parameters[0].source == "data"
    assert c.parameters[0].values.shape == (30, 1)
    assert (a.title, a.is_real) == (" of output 'a'", True)
    with pytest.raises(ValueError, match="Received: 3 outputs"):
        read_output(model, x)


def test_a_layer_called_twice_is_followed_to_its_last_call():
    shared = keras.layers.Dense(5, activation="softmax")
    given = keras.Input((5,))
    model = keras.Model(given, shared(shared(given)))
    x, _ = kinds.data(10)
    found = run(ClassifierGraph(model, with_features=True), x)
    kernel, bias = shared.get_weights()
    np.testing.assert_allclose(
        found["logits"], found["features"] @ kernel + bias, atol=1e-5
    )
    np.testing.assert_allclose(found["features"].sum(axis=1), 1, atol=1e-5)


def test_files_run_no_code_and_errors_are_plain(tmp_path):
    given = keras.Input((5,))
    code = keras.Model(given, keras.layers.Lambda(lambda v: v)(given))
    code.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="(?i)lambda"):
        load_model(tmp_path / "model.keras")
    with pytest.raises(ValueError, match="no such file"):
        load_model(tmp_path / "none.keras")
    with pytest.raises(ValueError, match="path of .* Received: 3"):
        load_model(3)
    two = keras.Model(given, {"a": given, "b": given})
    with pytest.raises(ValueError, match="Received: 2 outputs"):
        ModelGraph(two)
    three = keras.Model(given, [given, given, given])
    with pytest.raises(ValueError, match="Received: 3 outputs"):
        ModelGraph(three)


def test_labels_targets_and_probabilities():
    np.testing.assert_array_equal(as_labels([[1], [0]], (2, 3)), [1, 0])
    np.testing.assert_array_equal(as_labels(np.eye(3), (3, 3)), [0, 1, 2])
    with pytest.raises(ValueError, match=r"from 0 to 1. Received: \[0.5\]"):
        as_labels([0.5], (1, 1))
    with pytest.raises(ValueError, match="class numbers"):
        as_labels(["cat"], (1, 3))
    assert as_targets(np.ones(3), (3, 1)).shape == (3, 1)
    with pytest.raises(ValueError, match=r"Received: \(2,\)"):
        as_targets(np.ones(2), (3, 1))
    rows = np.full((4, 2), 0.5)
    assert are_probabilities(rows)
    assert not are_probabilities(rows[:, :1])
    assert not are_probabilities(rows + 0.1)
    assert not are_probabilities(rows * [[3, -1]])


def test_a_reshape_that_mixes_classes_is_no_softmax():
    given = keras.Input((5,))
    p = keras.layers.Dense(6, activation="softmax")(given)
    model = keras.Model(given, keras.layers.Reshape((2, 3))(p))
    with pytest.raises(ValueError, match="Received: Reshape"):
        ClassifierGraph(model)
