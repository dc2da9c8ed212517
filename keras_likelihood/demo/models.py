"""Data and models of the demo: an ordinary loss and likelihoods."""

from typing import NamedTuple

import keras
import numpy as np

from keras_likelihood.layers import RobustRhoHead, ScaleHead
from keras_likelihood.likelihoods import Normal
from keras_likelihood.losses import NormalLoss, RobustRhoLoss
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.regularizers import MultiLasso


class Split(NamedTuple):
    """Training and test data."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def curve(x):
    """`noisy_curve` without noise."""
    return np.sin(2 * x) + 0.5 * x


def noisy_curve(seed: int = 0) -> Split:
    """A curve whose noise grows to the right; 10 % of targets are too large."""
    rng = np.random.default_rng(seed)

    def draw(count):
        x = rng.uniform(-2, 2, size=(count, 1))
        y = curve(x) + (0.05 + 0.2 * (x + 2) / 4) * rng.normal(size=x.shape)
        wrong = rng.random(x.shape) < 0.1
        y = np.where(wrong, y + rng.uniform(2, 5, size=x.shape), y)
        return x.astype("float32"), y.astype("float32")

    return Split(*draw(600), *draw(2000))


def diabetes(seed: int = 0) -> Split:
    """442 patients, 10 measurements, disease progression after a year."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = order[:220], order[220:]
    x = (x - x[train].mean(axis=0)) / (x[train].std(axis=0) + 1e-6)
    y = ((y - y[train].mean()) / y[train].std())[:, None]
    x, y = x.astype("float32"), y.astype("float32")
    return Split(x[train], y[train], x[test], y[test])


def wrong_digits(seed: int = 0, wrong: float = 0.15):
    """1,797 digits `(n, 8, 8)`, labels of which some are wrong, true labels."""
    from sklearn.datasets import load_digits

    x, true = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    moved = rng.random(len(true)) < wrong
    y = np.where(moved, (true + rng.integers(1, 10, len(true))) % 10, true)
    return x.reshape(-1, 8, 8), y, true


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

    def squared_error(x):
        return Normal(plain.predict(x, len(x), verbose=0), scale=spread)

    # Squared error predicts no scale. The best estimate of its scale is the
    # root mean squared residual.
    residual = split.y - plain.predict(split.x, len(split.x), verbose=0)
    spread = float(np.sqrt(np.mean(residual**2)))
    return {
        "squared error": squared_error,
        "normal, predicted scale": _distributions(normal),
        "robust rho, learned shape": _distributions(robust),
    }


def _distributions(model):
    return lambda x: model.predict_distribution(x, batch_size=len(x), verbose=0)


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
    # 20 divides the numbers of rows for training and validation. JAX would
    # compile a step again for a smaller batch.
    batch = 20 * max(1, len(split.x) // 200)
    options = {"validation_split": 0.2, "verbose": 0, "callbacks": [stop]}
    model.fit(split.x, split.y, batch, epochs, **options)
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
        rows = (np.tile(values, (copies, 1)) for values in (x, y))
        model.fit(*rows, len(x), epochs, shuffle=False, verbose=0)
        learned[name] = dense.get_weights()[0][:, 0]
        tick()
    return learned
