"""The audit treats every kind of model alike."""

import keras
import numpy as np
import pytest
from scipy.special import log_softmax

import keras_likelihood as kl
from keras_likelihood.auditing.audit import audit
from tests import kinds

pytestmark = pytest.mark.usefixtures("step_by_step")


@pytest.mark.parametrize(
    "kind", ["backbone", "twice_nested", "cast", "subclassed"]
)
def test_every_shape_gives_the_same_scores(kind):
    x, y = kinds.data(64)
    told = {"from_logits": False} if kind == "subclassed" else {}
    report = audit(kinds.make(kind), x, y, None, **told)
    logs = log_softmax(kinds.logits_of(x), axis=1)
    np.testing.assert_allclose(
        report.nll, -logs[np.arange(64), y], rtol=1e-3, atol=1e-4
    )


def test_plain_vectors_and_compiled_subclasses():
    x, y = kinds.data(64)
    y = (y > 0).astype(int)
    expected = np.logaddexp(
        0, -np.where(y, 1, -1) * kinds.logits_of(x, 1)[:, 0]
    )
    column = kinds.make("functional", 1, "sigmoid")
    given = keras.Input((5,))
    vector = keras.Model(given, keras.ops.squeeze(column(given), axis=-1))
    subclass = kinds.make("subclassed", 1, None)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    subclass.compile("sgd", loss=loss)
    for model in (vector, subclass):
        report = audit(model, x, y, None)
        np.testing.assert_allclose(report.nll, expected, rtol=1e-2, atol=1e-4)


def test_several_elements_are_averaged_as_a_detector_does():
    pytest.importorskip("sklearn")
    x, y = kinds.data(32)
    given = keras.Input((5,))
    model = kl.LikelihoodModel(given, kl.layers.ScaleHead(2)(given))
    model.compile("sgd", loss=kl.losses.NormalLoss())
    random = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(random.normal(size=weight.shape))
    _, scale = model.predict(x, verbose=0)
    targets = np.stack([y, -y], axis=1) + 0.5
    scores = audit(model, x, targets, None).scores
    expected = np.sqrt(scale[:, 0].astype("float64") * scale[:, 1])
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    detector = kl.outliers.ScoreDetector(model).fit(x)
    np.testing.assert_allclose(
        detector.decision_scores_, np.log(scores), atol=1e-5
    )
