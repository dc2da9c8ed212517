"""Features that work alone work together."""

import keras
import numpy as np
import pytest

from tests import feature_pairs as features
from tests.contracts import EAGERLY, as_numpy

TOLERANCE = {"float32": 1e-4, "mixed_float16": 5e-3, "mixed_bfloat16": 3e-2}


@pytest.fixture
def precision():
    """Sets a policy, and after the test that of before."""
    before = keras.config.dtype_policy()
    yield keras.config.set_dtype_policy
    keras.config.set_dtype_policy(before)


def chosen():
    """All cases on TensorFlow, every third one elsewhere."""
    step = 1 if keras.backend.backend() == "tensorflow" else 3
    return features.CASES[::step]


def described(case):
    return "-".join([case.family.name, *case[1:-1]]).replace(" ", "_")


def nll_of(model, case):
    model.run_eagerly = EAGERLY
    distribution = model.predict_distribution(
        features.make_x(case), batch_size=features.ROWS, verbose=0
    )
    return as_numpy(distribution.nll(features.make_y(case)))


def assert_finite(*values):
    for value in keras.tree.flatten(values):
        assert np.isfinite(as_numpy(value)).all()


@pytest.mark.parametrize("case", chosen(), ids=described)
def test_features_hold_together(case, precision, tmp_path):
    precision(case.precision)
    model = features.compiled(case)
    before = as_numpy(model.get_weights())
    history = model.fit(**features.feed_training(case), verbose=0)
    assert_finite(history.history, model.get_weights())
    if case.precision != "mixed_float16":
        # Loss scaling leaves out the first steps.
        pairs = zip(before, model.get_weights(), strict=True)
        assert any(not np.array_equal(a, b) for a, b in pairs)

    model.run_eagerly = EAGERLY and case.run != "plain"
    found = model.evaluate(
        **features.feed_evaluation(case), verbose=0, return_dict=True
    )
    nll = nll_of(model, case)
    loss, mean = features.averages(case, nll)
    close = {"rtol": TOLERANCE[case.precision], "atol": 1e-3}
    np.testing.assert_allclose(found["nll"], mean, **close)
    if case.model != "ensemble":
        # The loss of an ensemble is the mean loss of its members.
        penalty = sum(float(as_numpy(value)) for value in model.losses)
        np.testing.assert_allclose(found["loss"], loss + penalty, **close)

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(nll_of(loaded, case), nll, **close)
