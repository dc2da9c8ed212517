"""Pruning what the priors have switched off."""

import keras
import numpy as np
import pytest

from keras_likelihood import regularizers


@pytest.fixture
def model():
    layers = [
        keras.Input((5,)),
        keras.layers.Dense(
            2, kernel_regularizer=regularizers.DLasso(num_examples=100)
        ),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential(layers)
    model.layers[0].kernel_regularizer.build((5, 2))
    kernel = np.zeros((5, 2), dtype="float32")
    kernel[0] = 1.0
    kernel[1] = 1e-4
    kernel[2] = -0.3
    model.layers[0].kernel.assign(kernel)
    return model


def test_prune_zeroes_what_is_switched_off(model):
    plain = keras.ops.convert_to_numpy(model.layers[1].kernel)
    path = model.layers[0].kernel.path
    assert regularizers.prune(model) == {path: 6}
    kernel = keras.ops.convert_to_numpy(model.layers[0].kernel)
    np.testing.assert_allclose(kernel[:3, 0], [1.0, 0.0, -0.3], rtol=1e-6)
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(model.layers[1].kernel), plain
    )


def test_only_adaptive_weights_are_listed(model):
    (weight,) = regularizers.adaptive_weights(model)
    assert weight is model.layers[0].kernel


def test_a_ridge_scale_below_the_noise_is_off():
    regularizer = regularizers.MultiRidge(num_examples=100, initial_scale=1e-3)
    regularizer.build((4, 1))
    weight = np.ones((4, 1), dtype="float32")
    assert regularizer.switched_off(weight).all()
    regularizer.log_scale.assign(np.zeros((4, 1)))
    assert not regularizer.switched_off(weight).any()
