"""Sparse weights: a prior scale for each weight, learned with it."""

import dataclasses

import keras
import numpy as np

from keras_likelihood.losses import NormalLoss
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.regularizers import MultiLasso


@dataclasses.dataclass
class Weights:
    """Fifty weights, five of which matter.

    Args:
        true: the weights from which the targets were made.
        plain: weights learned without a regularizer.
        sparse: weights learned with `MultiLasso`.
    """

    true: np.ndarray
    plain: np.ndarray
    sparse: np.ndarray

    def error(self, name: str) -> float:
        """Root mean square error of the weights of this name."""
        return float(np.sqrt(np.mean((getattr(self, name) - self.true) ** 2)))


def learn_sparse_weights(on_epoch, quick: bool) -> Weights:
    """Learns the weights of a line from 200 noisy examples, twice.

    Args:
        on_epoch: function of the number of finished epochs and of all epochs.
        quick: whether to train for a few steps only.
    """
    random = np.random.default_rng(0)
    true = np.zeros((50, 1))
    true[::10, 0] = [1.5, -1.0, 2.0, 1.0, -1.5]
    x = random.normal(size=(200, 50)).astype("float32")
    y = (x @ true + random.normal(size=(200, 1))).astype("float32")
    # One epoch has many full batches, because each epoch costs Keras time.
    epochs, copies = (1, 5) if quick else (10, 100)
    learned = []
    for at, regularizer in enumerate([None, MultiLasso(num_examples=len(x))]):
        keras.utils.set_random_seed(0)
        inputs = keras.Input((50,))
        dense = keras.layers.Dense(1, kernel_regularizer=regularizer)
        model = LikelihoodModel(inputs, dense(inputs))
        decay = keras.optimizers.schedules.CosineDecay(0.05, copies * epochs)
        model.compile(
            keras.optimizers.Adam(decay, beta_2=0.99), loss=NormalLoss()
        )
        model.fit(
            np.tile(x, (copies, 1)),
            np.tile(y, (copies, 1)),
            batch_size=len(x),
            epochs=epochs,
            shuffle=False,
            verbose=0,
        )
        learned.append(dense.get_weights()[0][:, 0])
        on_epoch(at + 1, 2)
    return Weights(true[:, 0], *learned)
