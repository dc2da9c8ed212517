"""Recalibration of Keras models and saved files."""

import functools
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_likelihood import recalibration
from tests import kinds

pytestmark = pytest.mark.usefixtures("step_by_step")
make = functools.partial(kinds.make, "functional")

METHODS = [
    "GlobalScaling",
    "LinearScaling",
    "LinearFeatureScaling",
    "DeepScaling",
    "VectorScaling",
    "MatrixScaling",
    "AutoScaling",
]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", METHODS)
def test_saved_model_equals_the_arrays(name, tmp_path):
    x, y = kinds.data(256)
    fitted = getattr(recalibration, name)().fit(make(), x, y)
    found = fitted.model.predict(x, verbose=0)
    p = make().predict(x, verbose=0)
    expected = fitted.calibrate(p, kinds.hidden_of(x), from_logits=False)
    np.testing.assert_allclose(found, expected, atol=2e-3)
    path = tmp_path / "calibrated.keras"
    fitted.model.save(path)
    loaded = keras.models.load_model(path)
    np.testing.assert_allclose(loaded.predict(x, verbose=0), found, atol=1e-6)


def test_tf_data():
    tf = pytest.importorskip("tensorflow")
    x, y = kinds.data()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)
    found = recalibration.GlobalScaling().fit(make(), dataset)
    expected = recalibration.GlobalScaling().fit(make(), x, y)
    assert found.parameters_ == pytest.approx(expected.parameters_, rel=1e-4)


def test_dense_prediction():
    random = np.random.default_rng(0)
    x = random.standard_normal((6, 8, 8, 2)).astype("float32")
    y = (x[..., 0] > 0).astype(int) + (x[..., 1] > 1)
    inputs = keras.Input((8, 8, 2))
    hidden = keras.layers.Conv2D(4, 3, padding="same")(inputs)
    outputs = keras.layers.Conv2D(3, 1, activation="softmax")(hidden)
    model = keras.Model(inputs, outputs)
    fitted = recalibration.LinearFeatureScaling().fit(model, x, y)
    p = fitted.model.predict(x, verbose=0)
    assert p.shape == (6, 8, 8, 3)
    before = model.predict(x, verbose=0)
    np.testing.assert_array_equal(p.argmax(-1), before.argmax(-1))


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="SavedModel"
)
def test_saved_model_export(tmp_path):
    tf = pytest.importorskip("tensorflow")
    x, y = kinds.data()
    fitted = recalibration.AutoScaling().fit(make(), x, y)
    fitted.model.export(str(tmp_path / "served"), verbose=False)
    served = tf.saved_model.load(str(tmp_path / "served"))
    np.testing.assert_allclose(
        served.serve(x).numpy(), fitted.model.predict(x, verbose=0), atol=1e-5
    )


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["LinearFeatureScaling", "AutoScaling"])
def test_onnx_export(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    needed = {"tensorflow": "tf2onnx", "torch": "onnxscript"}
    backend = keras.backend.backend()
    if backend not in needed:
        pytest.skip("ONNX export needs TensorFlow or PyTorch here")
    pytest.importorskip(needed[backend])
    x, y = kinds.data()
    fitted = getattr(recalibration, name)().fit(make(), x, y)
    path = str(tmp_path / "model.onnx")
    fitted.model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(path)
    found = session.run(None, {session.get_inputs()[0].name: x})[0]
    np.testing.assert_allclose(
        found, fitted.model.predict(x, verbose=0), atol=1e-4
    )


_ALONE = """
import sys
sys.modules["keras_likelihood"] = None
import keras, numpy
model = keras.saving.load_model(sys.argv[1])
x = numpy.load(sys.argv[2])
numpy.save(sys.argv[3], model.predict(x, verbose=0))
"""


@pytest.mark.few(0)
@pytest.mark.parametrize("units", [1, 3])
def test_files_load_without_this_package(units, tmp_path):
    x, y = kinds.data()
    ending, y = ("softmax", y) if units == 3 else ("sigmoid", (y > 0) * 1)
    base = make(units, ending)
    script, inputs = tmp_path / "alone.py", tmp_path / "x.npy"
    script.write_text(_ALONE)
    np.save(inputs, x)
    for name in METHODS if units == 3 else ["GlobalScaling", "AutoScaling"]:
        fitted = getattr(recalibration, name)().fit(base, x, y)
        path, found = tmp_path / f"{name}.keras", tmp_path / f"{name}.npy"
        fitted.model.save(path)
        if name in ("GlobalScaling", "AutoScaling"):
            command = [sys.executable, script, path, inputs, found]
            subprocess.run(command, check=True, capture_output=True)
            expected = fitted.model.predict(x, verbose=0)
            np.testing.assert_allclose(np.load(found), expected, atol=1e-6)
        for operation in fitted.model.operations:
            assert type(operation).__module__.startswith("keras."), name


@pytest.mark.parametrize("name", ["GlobalScaling", "AutoScaling"])
def test_attach_puts_a_map_fitted_on_arrays_behind_a_model(name):
    x, y = kinds.data()
    base = make()
    logits = np.log(base.predict(x, verbose=0))
    fitted = getattr(recalibration, name)().fit_arrays(logits, y)
    found = fitted.attach(base)
    assert found is fitted.model
    expected = fitted.calibrate(logits)
    np.testing.assert_allclose(found.predict(x, verbose=0), expected, atol=1e-5)
    for wrong in (lambda z: fitted.attach(make(5)), fitted.calibrate):
        with pytest.raises(ValueError, match="3 columns, .* Received: 5"):
            wrong(np.zeros((4, 5)))
    if name == "AutoScaling":
        with pytest.raises(ValueError, match="no columns, .* Received: 2"):
            fitted.calibrate(logits, x[:, :2])
        return
    whole = recalibration.GlobalScaling().fit(base, x, y)
    assert fitted.temperature == pytest.approx(whole.temperature, rel=1e-3)


def test_arrays_are_refused_by_name():
    x, y = kinds.data()
    fit = recalibration.GlobalScaling().fit
    with pytest.raises(ValueError, match="`fit_arrays`. Received: an array of"):
        fit(np.zeros((len(y), 3)), y)
    with pytest.raises(ValueError, match="`y` must be given if `x` is an arr"):
        fit(make(), x)
