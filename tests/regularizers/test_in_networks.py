"""Adaptive regularizers in every kind of model."""

import warnings

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import regularizers
from keras_likelihood.regularizers.held_out_slopes import HeldOutSlopes

SOME = {"batch_size": 8, "epochs": 4, "verbose": 0}
HOW = pytest.mark.parametrize("validation_split", [0.0, 0.25])


@pytest.fixture
def data(rng):
    x = rng.standard_normal((64, 5)).astype("float32")
    y = x[:, :1] + rng.standard_normal((64, 1))
    return x, y.astype("float32")


def ridge():
    return regularizers.DRidge()


def moved(model):
    priors = [w.regularizer for w in regularizers.adaptive_weights(model)]
    assert priors
    assert all(np.all(np.isfinite(prior.scale())) for prior in priors)
    return all(np.all(prior.scale() != 1.0) for prior in priors)


class Subclassed(kl.LikelihoodModel):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(4, "tanh", kernel_regularizer=ridge())
        self.last = keras.layers.Dense(1, kernel_regularizer=ridge())

    def call(self, x):
        return self.last(self.hidden(x))


def adaptive(model):
    return regularizers.adaptive_weights(model)


def network(prior=None):
    inputs = keras.Input((5,))
    dense = keras.layers.Dense(1, kernel_regularizer=prior or ridge())
    return kl.LikelihoodModel(inputs, dense(inputs))


def mixture():
    inputs = keras.Input((5,))
    hidden = keras.layers.Dense(4, "tanh", kernel_regularizer=ridge())(inputs)
    head = kl.layers.LikelihoodHead("mixture(normal)", 1)
    return kl.LikelihoodModel(inputs, head(hidden))


def ensemble():
    return kl.Ensemble(network, members=2)


@pytest.mark.few(1)
@HOW
@pytest.mark.parametrize("build", [Subclassed, mixture, ensemble])
def test_a_model_learns_scales(validation_split, build, data):
    model = build()
    loss = "mixture(normal)" if build is mixture else "normal"
    model.compile("adam", loss=kl.losses.LikelihoodLoss(loss))
    model.fit(*data, validation_split=validation_split, **SOME)
    assert moved(model)


OPTIMIZERS = ["Adam", "AdamW", "Nadam", "RMSprop", "Adagrad", "Lion"]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["SGD", *OPTIMIZERS])
def test_any_optimizer(name, data):
    model = network()
    if name == "SGD":
        optimizer = keras.optimizers.SGD(0.5, momentum=0.9)
    else:
        optimizer = getattr(keras.optimizers, name)(0.01)
    model.compile(optimizer, loss=kl.losses.NormalLoss())
    history = model.fit(*data, **SOME).history
    assert np.all(np.isfinite(history["loss"]))
    assert moved(model)


@pytest.mark.few(1)
@HOW
def test_a_frozen_prior_stays(validation_split, data):
    prior = ridge()
    model = network(prior)
    _ = model.losses
    prior.set_scale(0.05)
    prior.trainable = False
    model.compile("adam", loss=kl.losses.NormalLoss())
    model.fit(*data, validation_split=validation_split, **SOME)
    np.testing.assert_allclose(prior.scale(), 0.05, rtol=1e-6)
    assert not prior.trainable


def test_the_optimizer_does_not_hold_the_scales(data):
    model = network()
    model.compile("adam", loss=kl.losses.NormalLoss())
    model.fit(*data, verbose=0)
    prior = adaptive(model)[0].regularizer
    assert not prior.trainable_variables
    joint = regularizers.DRidge(num_examples=64, objective="joint")
    model = network(joint)
    model.compile("adam", loss=kl.losses.NormalLoss())
    model.fit(*data, verbose=0)
    assert len(joint.trainable_variables) == 1 and joint.scale() != 1.0


def test_what_nothing_decides_is_named(data):
    def batches():
        while True:
            yield data

    model = Subclassed()
    model.compile("adam", loss=kl.losses.NormalLoss())
    model(data[0])
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", UserWarning)
        model.fit(batches(), steps_per_epoch=2, verbose=0)
    assert sum("are not learned" in str(w.message) for w in heard) == 1
    prior = adaptive(model)[0].regularizer
    assert prior.source == ""


def test_short_fits_compile_one_measurement(data, monkeypatch):
    made = []
    init = HeldOutSlopes.__init__
    monkeypatch.setattr(
        HeldOutSlopes,
        "__init__",
        lambda self, *args: (made.append(self), init(self, *args))[1],
    )
    model = Subclassed()
    model.compile("adam", loss=kl.losses.NormalLoss())
    scales = []
    for _ in range(6):
        model.fit(*data, batch_size=8, verbose=0)
        scales.append(adaptive(model)[0].regularizer.scale().item())
    assert len(made) == 1
    # Together the fits are as long as one that learns.
    assert scales[-1] != scales[0]


@pytest.mark.few(0)
def test_a_learned_noise_knows_what_the_weights_use(data):
    """As many weights as examples: the residuals alone would be zero."""
    x, y = data
    prior = regularizers.DRidge()
    model = network(prior)
    model.compile(keras.optimizers.Adam(0.01), loss=kl.losses.NormalLoss())
    model.fit(*data, batch_size=64, epochs=300, verbose=0)
    noise = float(model.loss.parameter_values()["scale"])
    residual = y - ops.convert_to_numpy(model(x))
    used = prior.effective_weights()
    assert used > 1
    expected = np.sqrt(np.sum(residual**2) / (64 - used))
    np.testing.assert_allclose(noise, expected, rtol=0.02)
