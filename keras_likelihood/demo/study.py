"""Ordinary losses and likelihoods, trained on the same data."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np

from keras_likelihood.layers import RobustRhoHead, ScaleHead
from keras_likelihood.likelihoods import Likelihood, Normal
from keras_likelihood.losses import NormalLoss, RobustRhoLoss
from keras_likelihood.models import LikelihoodModel

SQUARED_ERROR = "squared error"
NORMAL = "normal, predicted scale"
ROBUST = "robust rho, learned shape"


@dataclasses.dataclass
class Fit:
    """A trained model as a map from inputs to a distribution of targets."""

    name: str
    distribution: Callable[[np.ndarray], Likelihood]


def regressors(split, epochs, tick) -> list[Fit]:
    """Squared error beside two likelihoods, on one architecture."""
    plain = _train(_network(split, 1), "mse", split, epochs, tick)
    # Squared error predicts no scale. The best estimate of its scale is the
    # root mean squared residual.
    residual = split.y - _at_once(plain.predict, split.x)
    spread = float(np.sqrt(np.mean(residual**2)))
    normal = _network(split, ScaleHead(1))
    robust = _network(split, RobustRhoHead(1, conditioning=_SHARED_SHAPE))
    _train(normal, NormalLoss(), split, epochs, tick)
    _train(robust, RobustRhoLoss(), split, epochs, tick)
    return [
        Fit(
            SQUARED_ERROR,
            lambda x: Normal(_at_once(plain.predict, x), scale=spread),
        ),
        Fit(NORMAL, _predicted(normal)),
        Fit(ROBUST, _predicted(robust)),
    ]


_SHARED_SHAPE = {"shape": "global", "scale": "predicted"}
_BATCH = 60
"""Divides the numbers of rows for training and validation.

JAX would compile a step again for a smaller batch.
"""
_AT_ONCE = 10_000
"""Rows in a batch of the prediction: all rows in one batch."""


def _network(split, head):
    keras.utils.set_random_seed(0)
    inputs = keras.Input(split.x.shape[1:])
    hidden = keras.layers.Dense(32, activation="relu")(inputs)
    hidden = keras.layers.Dense(32, activation="relu")(hidden)
    if isinstance(head, int):
        return keras.Model(inputs, keras.layers.Dense(head)(hidden))
    return LikelihoodModel(inputs, head(hidden))


def _train(model, loss, split, epochs, tick):
    """Trains until the last fifth of the training data stops improving."""
    model.compile(keras.optimizers.Adam(0.005), loss=loss)
    history = model.fit(
        split.x,
        split.y,
        batch_size=_BATCH,
        epochs=epochs,
        validation_split=0.2,
        verbose=0,
        callbacks=[
            keras.callbacks.EarlyStopping(
                patience=25, restore_best_weights=True
            ),
            keras.callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, logs: tick()
            ),
        ],
    )
    # The progress bar counts the epochs that were not needed too.
    for _ in range(epochs - len(history.epoch)):
        tick()
    return model


def _predicted(model):
    return lambda x: _at_once(model.predict_distribution, x)


def _at_once(predict, x):
    return predict(x, batch_size=_AT_ONCE, verbose=0)
