"""The package reads the models that it wrote."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import recalibration
from keras_likelihood.conformal import ConformalIntervals, ConformalSets
from keras_likelihood.reading import ModelGraph, read_output
from keras_likelihood.recalibration import regression
from tests import kinds

pytestmark = pytest.mark.usefixtures("step_by_step")

METHODS = ["GlobalScaling", "AutoScaling", "DeepScaling", "MatrixScaling"]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("units", [1, 3])
def test_a_recalibrated_classifier_is_a_classifier(name, units, tmp_path):
    x, y = kinds.data()
    ending = "softmax" if units > 1 else "sigmoid"
    y = y if units > 1 else (y > 0).astype(int)
    model = kinds.make("functional", units, ending)
    path = tmp_path / "calibrated.keras"
    fitted = getattr(recalibration, name)().fit(model, x, y)
    fitted.model.save(path)
    p = fitted.model.predict(x, verbose=0)
    reading = read_output(path, x).with_likelihood(y)
    assert reading.kind == ending
    found = keras.ops.convert_to_numpy(reading.distribution().mean())
    np.testing.assert_allclose(found, p, atol=1e-4)
    again = recalibration.GlobalScaling().fit(path, x, y)
    after = fitted.report_["nll_after"]
    assert again.report_["nll_before"] == pytest.approx(after, abs=1e-3)
    # Layers with the same names occur twice in this model.
    again.model.save(tmp_path / "again.keras")
    loaded = keras.saving.load_model(tmp_path / "again.keras")
    expected = again.model.predict(x, verbose=0)
    np.testing.assert_allclose(loaded.predict(x, verbose=0), expected, 1e-5)
    sets = ConformalSets().fit(path, x, y).predict_set(x, 0.8)
    assert sets[np.arange(128), y].mean() >= 0.8
    (row,) = kl.compare({"calibrated": path}, x, y)
    assert row.scores["nll"] == pytest.approx(after, abs=1e-3)


@pytest.fixture
def ordinal():
    x, y = kinds.data()
    model = kl.LikelihoodModel.from_model(kinds.make("functional", 1, "linear"))
    model.compile("sgd", loss=kl.losses.OrdinalLoss(3))
    return model, x, y


@pytest.mark.few(0)
def test_ordered_classes_are_recalibrated_as_classes(ordinal, tmp_path):
    model, x, y = ordinal
    law = model.predict_distribution(x, verbose=0)
    target = y[:, None].astype("float32")
    nll = keras.ops.convert_to_numpy(law.nll(target)).mean()
    fitted = recalibration.VectorScaling().fit(model, x, y)
    assert fitted.report_["nll_before"] == pytest.approx(nll, rel=1e-3)
    fitted.model.save(tmp_path / "calibrated.keras")
    loaded = keras.saving.load_model(tmp_path / "calibrated.keras")
    assert loaded.predict(x, verbose=0).shape == (128, 3)
    sets = ConformalSets().fit(model, x, y).predict_set(x, 0.8)
    assert sets.shape == (128, 3)
    lower, upper = ConformalIntervals().fit(model, x, y).interval(x, 0.8)
    assert np.mean((lower[:, 0] <= y) & (y <= upper[:, 0])) >= 0.8


def test_no_class_is_advised_that_refuses_the_model(ordinal):
    model, x, y = ordinal
    with pytest.raises(ValueError, match="Received: ordinal") as refused:
        regression.GlobalRescaling().fit(model, x, y)
    assert "conformal.ConformalIntervals" in str(refused.value)
    counts = kl.LikelihoodModel.from_model(model)
    counts.compile("sgd", loss=kl.losses.PoissonLoss())
    with pytest.raises(ValueError, match="of poisson") as refused:
        recalibration.GlobalScaling().fit(counts, x, y)
    assert "recalibration.regression" not in str(refused.value)


def test_a_softmax_of_one_logit_is_called_by_its_name(ordinal):
    _, x, y = ordinal
    model = kl.LikelihoodModel.from_model(kinds.make("functional", 1, "linear"))
    model.compile("sgd", loss=kl.losses.SoftmaxLoss())
    with pytest.raises(ValueError, match="use Bernoulli"):
        model.fit(x, y > 0, verbose=0)
    with pytest.raises(ValueError, match="use Bernoulli"):
        kl.diagnose(model, x, (y > 0).astype(int))


def test_features_of_a_shared_layer_are_those_of_the_graph():
    x, _ = kinds.data()
    shared = keras.layers.Dense(4, name="shared")
    shared(keras.Input((5,)))
    given = keras.Input((5,))
    model = keras.Model(given, keras.layers.Dense(1)(shared(given)))
    graph = ModelGraph(model, features="shared")
    graph.tensors = graph.features()
    found, _, _ = graph.run(x, x)
    expected = keras.ops.convert_to_numpy(shared(x))
    np.testing.assert_allclose(found["features"], expected, atol=1e-5)
