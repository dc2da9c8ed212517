"""Models of the demo: an ordinary loss and likelihoods on the same data."""

import keras
import numpy as np

from keras_likelihood.layers import RobustRhoHead, ScaleHead
from keras_likelihood.likelihoods import Normal
from keras_likelihood.losses import NormalLoss, RobustRhoLoss
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.regularizers import MultiLasso

_BATCH = 20
"""Divides the numbers of rows for training and validation.

JAX would compile a step again for a smaller batch.
"""


def regressors(split, epochs: int, tick) -> dict:
    """Squared error and two likelihoods, with the same architecture.

    Returns for each loss a function of inputs that returns the predicted
    distribution of the targets. `tick` is called after each training.
    """
    shared = {"shape": "global", "scale": "predicted"}
    plain, normal, robust = (
        _train(head, loss, split, epochs, tick)
        for head, loss in (
            (keras.layers.Dense(1), "mse"),
            (ScaleHead(1), NormalLoss()),
            (RobustRhoHead(1, conditioning=shared), RobustRhoLoss()),
        )
    )

    def predict(x):
        return plain.predict(x, batch_size=len(x), verbose=0)

    # Squared error predicts no scale. The best estimate of its scale is the
    # root mean squared residual.
    spread = float(np.sqrt(np.mean((split.y - predict(split.x)) ** 2)))

    def distribution(model):
        return lambda x: model.predict_distribution(
            x, batch_size=len(x), verbose=0
        )

    return {
        "squared error": lambda x: Normal(predict(x), scale=spread),
        "normal, predicted scale": distribution(normal),
        "robust rho, learned shape": distribution(robust),
    }


def _train(head, loss, split, epochs, tick):
    """Trains until the last fifth of the training data stops improving."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input(split.x.shape[1:])
    hidden = keras.layers.Dense(32, activation="relu")(inputs)
    hidden = keras.layers.Dense(32, activation="relu")(hidden)
    model_class = keras.Model if loss == "mse" else LikelihoodModel
    model = model_class(inputs, head(hidden))
    model.compile(keras.optimizers.Adam(0.005), loss=loss)
    stop = keras.callbacks.EarlyStopping(patience=25, restore_best_weights=True)
    model.fit(
        split.x,
        split.y,
        batch_size=_BATCH * max(1, len(split.x) // 200),
        epochs=epochs,
        validation_split=0.2,
        verbose=0,
        callbacks=[stop],
    )
    tick()
    return model


def sparse_weights(quick: bool, tick) -> dict[str, np.ndarray]:
    """Fifty weights of a line, five of which matter.

    Returns the true weights, those learned without a regularizer, and those
    learned with `MultiLasso`.
    """
    random = np.random.default_rng(0)
    true = np.zeros((50, 1))
    true[::10, 0] = [1.5, -1.0, 2.0, 1.0, -1.5]
    x = random.normal(size=(200, 50)).astype("float32")
    y = (x @ true + random.normal(size=(200, 1))).astype("float32")
    # One epoch has many full batches, because each epoch costs Keras time.
    epochs, copies = (1, 5) if quick else (10, 100)
    learned = {"true": true[:, 0]}
    regularizers = {"plain": None, "sparse": MultiLasso(num_examples=len(x))}
    for name, regularizer in regularizers.items():
        keras.utils.set_random_seed(0)
        inputs = keras.Input((50,))
        dense = keras.layers.Dense(1, kernel_regularizer=regularizer)
        model = LikelihoodModel(inputs, dense(inputs))
        decay = keras.optimizers.schedules.CosineDecay(0.05, copies * epochs)
        optimizer = keras.optimizers.Adam(decay, beta_2=0.99)
        model.compile(optimizer, loss=NormalLoss())
        model.fit(
            np.tile(x, (copies, 1)),
            np.tile(y, (copies, 1)),
            batch_size=len(x),
            epochs=epochs,
            shuffle=False,
            verbose=0,
        )
        learned[name] = dense.get_weights()[0][:, 0]
        tick()
    return learned
