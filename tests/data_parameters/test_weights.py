"""Weights together with indexed targets."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters import SparseRMSProp

LABELS = np.array([0, 1, 2, 2, 1, 0, 2, 2], "int32")
INPUTS = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
WEIGHTS = np.array([0.5, 1, 3, 3, 1, 0.5, 3, 3], "float32")


def train(x, y=None, **weights):
    """State of the rows and the loss after an epoch of one batch."""
    temperature = kl.DataParameter(8, optimizer=SparseRMSProp(rho=0.0))
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(3, kernel_initializer="identity")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.0),
        loss=kl.losses.SoftmaxLoss(temperature=temperature),
    )
    history = model.fit(
        x,
        y,
        **weights,
        batch_size=8 if y is not None else None,
        shuffle=False,
        verbose=0,
    )
    return temperature.state(), history.history["loss"][0]


@pytest.fixture(scope="module")
def expected():
    return train(INPUTS, kl.indexed(LABELS), sample_weight=WEIGHTS)


class Batch(keras.utils.PyDataset):
    def __len__(self):
        return 1

    def __getitem__(self, number):
        return INPUTS, kl.indexed(LABELS), WEIGHTS


@pytest.mark.usefixtures("step_by_step")
def test_a_data_set_has_its_own_weights(expected):
    with pytest.raises(ValueError, match="`class_weight` must be None with"):
        train(Batch(), class_weight={0: 0.5, 2: 3.0})
    rows, loss = train(Batch())
    np.testing.assert_allclose(rows, expected[0], rtol=1e-5, atol=1e-7)
    assert loss == pytest.approx(expected[1], rel=1e-5)


@pytest.mark.usefixtures("step_by_step")
def test_weights_by_output():
    y = INPUTS[:, :1]

    def squares(weights):
        scale = kl.DataParameter(8, optimizer=SparseRMSProp(rho=0.0))
        inputs = keras.Input((3,))
        heads = {
            k: keras.layers.Dense(1, kernel_initializer="zeros")(inputs)
            for k in "ab"
        }
        model = kl.LikelihoodModel(inputs, heads)
        model.compile(
            keras.optimizers.SGD(0.0),
            loss={"a": kl.losses.NormalLoss(scale=scale), "b": "mse"},
        )
        assert list(model.data_parameters) == ["a_scale"]
        history = model.fit(
            INPUTS,
            kl.indexed({"a": y, "b": y}),
            sample_weight=weights,
            batch_size=8,
            verbose=0,
        )
        return scale.state()[:, 1], history.history["loss"][0]

    plain, _ = squares({"a": np.ones(8), "b": np.ones(8)})
    weighed, loss = squares({"a": 2 * np.ones(8), "b": np.zeros(8)})
    np.testing.assert_allclose(weighed, 4 * plain, rtol=1e-5)
    nll = 0.5 * y**2 + 0.5 * np.log(2 * np.pi)
    assert loss == pytest.approx(2 * np.mean(nll), rel=1e-5)
