"""The plot of learned scales."""

import keras
import matplotlib
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import regularizers

matplotlib.use("Agg")


def test_every_weight_is_drawn(tmp_path):
    layer = keras.layers.Dense(
        2, kernel_regularizer=regularizers.MultiLasso(num_examples=100)
    )
    model = keras.Sequential([keras.Input((5,)), layer])
    layer.kernel_regularizer.build((5, 2))
    kernel = np.full((5, 2), 1.0, dtype="float32")
    kernel[3:] = 0.0
    layer.kernel.assign(kernel)
    ax = kl.plots.plot_prior_scales(model)
    on, off = (c.get_offsets() for c in ax.collections)
    assert (len(on), len(off)) == (6, 4)
    np.testing.assert_allclose(on[:, 0], 1.0)
    np.testing.assert_allclose(on[:, 1], 1.0)
    ax.figure.savefig(tmp_path / "scales.png")
    matplotlib.pyplot.close(ax.figure)


def test_a_model_without_adaptive_weights_is_refused():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="Received: .sequential"):
        kl.plots.plot_prior_scales(model)


def test_all_layers_are_drawn_and_large_ones_in_part():
    layers = [
        keras.layers.Dense(
            n, kernel_regularizer=regularizers.DRidge(num_examples=100)
        )
        for n in (60, 50)
    ]
    model = keras.Sequential([keras.Input((50,)), *layers])
    for layer in layers:
        layer.kernel_regularizer.build(layer.kernel.shape)
    ax = kl.plots.plot_prior_scales(model)
    drawn = [len(c.get_offsets()) for c in ax.collections]
    assert sum(drawn[:2]) == sum(drawn[2:]) == 2000
    matplotlib.pyplot.close(ax.figure)


def test_strengths_are_drawn_over_the_epochs(rng):
    x = rng.standard_normal((40, 3)).astype("float32")
    inputs = features = keras.Input((3,))
    for units in (4, 1):
        prior = regularizers.DRidge()
        features = keras.layers.Dense(units, kernel_regularizer=prior)(features)
    model = kl.LikelihoodModel(inputs, features)
    model.compile("sgd", loss=kl.losses.NormalLoss(scale=1.0))
    with pytest.raises(ValueError, match="in this session"):
        kl.plots.plot_strengths(model)
    model.fit(x, x[:, :1], epochs=3, verbose=0)
    ax = kl.plots.plot_strengths(model)
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_ydata(), prior.history)
    assert line.get_label().endswith("and 1 more (4 training rows)")
    matplotlib.pyplot.close(ax.figure)
