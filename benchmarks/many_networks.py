"""Networks of equal shape, trained together in one Keras model.

Each network has its own rows: inputs are `(rows, networks, columns)`. The
networks share no weights, so each gives the same result as if it were trained
separately, but the overhead of a step occurs only once.
"""

import keras
import numpy as np
from keras import ops

import keras_likelihood as kl

HIDDEN = 50


class PerNetwork(keras.layers.Layer):
    """A dense layer of each network.

    Args:
        units: number of outputs.
        start: of the bias. A layer with a start has a kernel of zeros, as
            the parameters of our heads have.
        constant: leave the inputs out, so that the bias is the output.
        constraint: map of the outputs, or `None`.
    """

    def __init__(
        self, units, start=None, constant=False, constraint=None, **kwargs
    ):
        super().__init__(**kwargs)
        self.units, self.start = units, start
        self.constant, self.constraint = constant, constraint

    def build(self, shape):
        networks, columns = shape[1:]
        limit = np.sqrt(6 / (columns + self.units))
        self.kernel = self.add_weight(
            shape=(networks, columns, self.units),
            initializer="zeros"
            if self.start is not None
            else keras.initializers.RandomUniform(-limit, limit),
            trainable=not self.constant,
        )
        self.bias = self.add_weight(
            shape=(networks, self.units), initializer="zeros"
        )
        if self.start is not None:
            self.bias.assign(np.broadcast_to(self.start, self.bias.shape))

    def call(self, inputs):
        outputs = ops.einsum("bmi,mio->bmo", inputs, self.kernel) + self.bias
        return outputs if self.constraint is None else self.constraint(outputs)


class KeepBest(keras.callbacks.Callback):
    """Keeps each network's best epoch on its own held-out rows."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y, self.best, self.kept = x, y, None, None

    def on_epoch_end(self, epoch, logs=None):
        predicted = self.model.predict_distribution(
            self.x, batch_size=len(self.x), verbose=0
        )
        nll = ops.convert_to_numpy(predicted.nll(self.y))
        nll = nll.reshape(*nll.shape[:2], -1).mean(axis=(0, 2))
        weights = [w.numpy() for w in self.model.weights]
        if self.best is None:
            self.best, self.kept = nll, weights
            return
        better = nll < self.best
        self.best = np.where(better, nll, self.best)
        for kept, now in zip(self.kept, weights, strict=True):
            if kept.shape[:1] == better.shape:
                kept[better] = now[better]

    def on_train_end(self, logs=None):
        for variable, value in zip(self.model.weights, self.kept, strict=True):
            if value.shape[:1] == self.best.shape:
                variable.assign(value)


def build(
    likelihood,
    networks,
    columns,
    constant=(),
    *,
    dropout=0.0,
    offset=None,
    isolated=False,
):
    """A model of `networks` networks with one hidden layer each.

    Args:
        likelihood: class of the output's distribution.
        networks: how many.
        columns: number of inputs.
        constant: names of parameters with one value for all inputs.
        dropout: share of hidden units left out, also when predicting.
        offset: least scale, or `None` for the likelihood's constraint.
        isolated: the parameters have a hidden layer of their own on the
            features of the mean, and do not train these.
    """
    inputs = keras.Input((networks, columns))
    hidden = features = ops.relu(PerNetwork(HIDDEN)(inputs))
    if dropout:
        hidden = keras.layers.Dropout(dropout)(hidden, training=True)
        features = hidden
    if isolated:
        features = ops.relu(PerNetwork(HIDDEN)(ops.stop_gradient(hidden)))
    constraint = likelihood.prediction_constraint
    outputs = [PerNetwork(1, constraint=constraint)(hidden)]
    for p in likelihood.parameters:
        constraint = p.constraint
        if p.name == "scale" and offset:
            constraint = kl.constraints.ShiftedSoftplus(offset)
        size = p.size_for(1) or 1
        layer = PerNetwork(
            size,
            start=np.resize(constraint.inverse(p.initial), size),
            constant=p.name in constant,
            constraint=constraint,
        )
        outputs.append(layer(features))
    return kl.LikelihoodModel(inputs, outputs)


def train(model, loss, train, held_out, epochs, batch_size, rate):
    """Trains by Adam with a rate that falls to 0; keeps the best epochs."""
    steps = epochs * int(np.ceil(len(train[0]) / batch_size))
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(keras.optimizers.Adam(schedule), loss=loss)
    model.fit(
        *train,
        batch_size=batch_size,
        epochs=epochs,
        verbose=0,
        callbacks=[KeepBest(*held_out)],
    )
