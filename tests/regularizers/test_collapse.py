"""Starts from which the joint likelihood of weights and scales collapses.

As many weights as examples: the model can interpolate, so a learned noise may
follow the residuals to zero, and weights and prior scale may vanish together.
"""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import regularizers
from tests.batches import Repeated

SIZE, ON, STEPS = 60, 5, 300
# PyTorch runs one step at a time.
STEPS_PER_CALL = 1 if keras.backend.backend() == "torch" else 5


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((SIZE, SIZE)).astype("float32")
    weights = np.zeros((SIZE, 1), dtype="float32")
    weights[:ON, 0] = rng.uniform(1, 2, ON)
    y = x @ weights + rng.standard_normal((SIZE, 1))
    return x, y.astype("float32"), weights


def fit(
    regularizer, x, y, noise, kernel="glorot_uniform", steps=STEPS, rate=0.1
):
    inputs = keras.Input((x.shape[1],))
    outputs = keras.layers.Dense(
        1,
        use_bias=False,
        kernel_initializer=kernel,
        kernel_regularizer=regularizer,
    )(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    scale = kl.layers.GlobalParameter(initial=noise)
    decay = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(
        keras.optimizers.Adam(decay, beta_2=0.99),
        loss=kl.losses.NormalLoss(scale=scale),
        steps_per_execution=STEPS_PER_CALL,
    )
    # The rows of one batch say as much as those of many equal batches.
    measured = regularizers.LearnScales(x=x)
    model.fit(Repeated(steps, x, y), callbacks=[measured], verbose=0)
    found = keras.ops.convert_to_numpy(model.layers[-1].kernel)
    return found, float(model.loss.parameter_values()["scale"])


STARTS = [
    pytest.param(1.0, 1.0, "glorot_uniform", id="unit"),
    pytest.param(1.0, 4.0, "zeros", id="dead-weights"),
    pytest.param(0.01, 0.2, "glorot_uniform", id="tight"),
]
if keras.backend.backend() == "torch":
    # Thousands of steps that are not compiled take half a minute.
    STARTS = STARTS[1:2]


@pytest.mark.few(1)
@pytest.mark.parametrize(("scale", "noise", "kernel"), STARTS)
@pytest.mark.parametrize("cls", [regularizers.DLasso, regularizers.MultiLasso])
def test_neither_weights_nor_noise_collapse(cls, scale, noise, kernel, study):
    x, y, weights = study
    regularizer = cls(num_examples=SIZE, initial_scale=scale)
    found, noise = fit(regularizer, x, y, noise, kernel)
    assert 0.5 < noise < 1.8
    assert np.all(found[:ON] > 0.5)
    assert np.mean((found - weights) ** 2) < 0.02


@pytest.mark.few(0)
def test_ridge_keeps_the_noise_from_collapsing(study):
    x, y, weights = study
    regularizer = regularizers.DRidge(num_examples=SIZE)
    found, noise = fit(regularizer, x, y, 1.0)
    assert 0.4 < noise < 3
    least_squares = np.linalg.solve(x, y)
    error = np.mean((found - weights) ** 2)
    assert error < 0.3 * np.mean((least_squares - weights) ** 2)


@pytest.mark.few(0)
def test_the_joint_likelihood_does_collapse(study):
    x, y, _ = study
    joint = regularizers.DLasso(num_examples=SIZE, objective="joint")
    _, noise = fit(joint, x, y, 1.0)
    assert noise < 0.4


@pytest.mark.few(0)
def test_pure_noise_switches_everything_off():
    # With fewer rows, weights that fit the noise by chance are larger.
    size = 120
    x, y = (
        np.random.default_rng(seed).standard_normal(shape).astype("float32")
        for seed, shape in ((1, (size, size)), (2, (size, 1)))
    )
    regularizer = regularizers.MultiLasso(num_examples=size)
    found, noise = fit(regularizer, x, y, 1.0, steps=800, rate=0.05)
    assert np.mean(regularizer.switched_off(found)) > 0.7
    assert np.mean(found**2) < 0.003
    assert 0.6 < noise < 1.5
