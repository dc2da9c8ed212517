"""The paper's own recipe for its small models, with public classes.

The appendix of the paper has the settings: inputs and targets are
standardised, Adam has a constant rate of 1e-3 and takes 3,000 steps on all
rows, scales are a softplus with an offset of 0.01 and start at 1, and a network
has hidden layers of 10 ReLU units.

Networks of one shape are trained together: arrays are `(networks, rows,
columns)`. They share no weights and Adam updates every weight separately, so
each gives the same result as if it were trained separately.
"""

import time

import keras
import numpy as np
from keras import ops

import keras_likelihood as kl

RATE, STEPS, UNITS = 1e-3, 3000, 10
POSITIVE = kl.constraints.ShiftedSoftplus(0.01)
"""The paper's map of scales, which is 1 at 0."""
TENSORFLOW_1 = {"epsilon": 1e-10, "initial_mean_square": 1.0}
"""Of the RMSProp of data parameters."""
STEPS_PER_CALL = 1 if keras.backend.backend() == "torch" else 50


class Dense(keras.layers.Layer):
    """A dense layer of each network, with Glorot's start.

    Args:
        units: number of outputs.
        relu: whether the outputs are rectified.
        constant: the outputs are the bias alone.
    """

    def __init__(self, units, *, relu=False, constant=False):
        super().__init__()
        self.units, self.relu, self.constant = units, relu, constant

    def build(self, shape):
        networks, _, columns = shape
        if not self.constant:
            limit = np.sqrt(6 / (columns + self.units))
            start = keras.initializers.RandomUniform(-limit, limit)
            size = (networks, columns, self.units)
            self.kernel = self.add_weight(shape=size, initializer=start)
        size = (networks, 1, self.units)
        self.bias = self.add_weight(shape=size, initializer="zeros")

    def call(self, x):
        if self.constant:
            return self.bias + ops.zeros_like(x[:, :, :1])
        found = ops.matmul(x, self.kernel) + self.bias
        return ops.relu(found) if self.relu else found


class SeparateAdam(keras.optimizers.Adam):
    """Adam that clips the gradients of each network separately."""

    def __init__(self, *args, clipnorm=None, **options):
        super().__init__(*args, **options)
        self.largest = clipnorm

    def apply(self, grads, trainable_variables=None):
        if self.largest:
            grads = [self._clipped(gradient) for gradient in grads]
        return super().apply(grads, trainable_variables)

    def _clipped(self, gradient):
        # The loss is a mean over networks: each has a part of its gradient.
        gradient = gradient * gradient.shape[0]
        norm = ops.sqrt(ops.sum(gradient**2, axis=(1, 2), keepdims=True))
        return gradient / ops.maximum(norm / self.largest, 1.0)


class Repeated(keras.utils.PyDataset):
    """One epoch of many steps, each with the same arrays."""

    def __init__(self, x, y, steps):
        super().__init__()
        self.batch, self.steps = (x, y), steps

    def __len__(self):
        return self.steps

    def __getitem__(self, step):
        return self.batch


class Batches(keras.utils.PyDataset):
    """Batches of random rows for each network, all full.

    Args:
        x, y: arrays `(rows, ...)`, or lists or dicts of them.
        steps: number of batches.
        seeds: number of networks, each with an order of its own.
        size: rows of a batch.
    """

    def __init__(self, x, y, steps, seeds, size):
        super().__init__()
        self.arrays, self.steps, self.size = (x, y), steps, size
        rows = len(keras.tree.flatten(x)[0])
        rounds = -(-steps * size // rows)
        self.orders = [
            np.concatenate([random.permutation(rows) for _ in range(rounds)])
            for random in map(np.random.default_rng, range(seeds))
        ]

    def __len__(self):
        return self.steps

    def __getitem__(self, step):
        part = slice(step * self.size, (step + 1) * self.size)
        return keras.tree.map_structure(
            lambda array: np.stack([array[o[part]] for o in self.orders]),
            self.arrays,
        )


def input_like(array):
    """A Keras input of exactly this shape."""
    return keras.Input(batch_shape=array.shape)


def train(
    inputs,
    outputs,
    rows,
    *,
    kind=kl.losses.NormalLoss,
    rate=RATE,
    clipnorm=None,
    **options,
):
    """Trains by Adam with a constant rate.

    Args:
        inputs: Keras inputs.
        outputs: prediction and parameter, or a dict of such pairs.
        rows: `Repeated` or `Batches`.
        kind: class of the loss.
        rate: learning rate.
        clipnorm: largest norm of the gradient of a variable of a network.
        **options: further arguments of Adam.
    """
    model = kl.LikelihoodModel(inputs, outputs)
    loss = kind()
    if isinstance(outputs, dict):
        loss = {name: kind() for name in outputs}
    model.compile(
        SeparateAdam(rate, clipnorm=clipnorm, **options),
        loss=loss,
        steps_per_execution=min(STEPS_PER_CALL, len(rows)),
    )
    model.fit(rows, shuffle=False, verbose=0)
    return model


def slopes(scales, studies, steps=STEPS):
    """Slopes of lines whose scales are learned as the paper learns them.

    Args:
        scales: `"data"` has one scale for each row (DPLS), `"xy"` a network of
            input and target (MPLS-XY).
        studies: pairs of x `(n, 1)` and y `(n,)`, all of one size.
        steps: number of steps.

    Returns:
        One slope for each study, and the seconds of a second fit, without
        compilation.
    """
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    x, y = (np.stack([s[i].reshape(-1, 1) for s in studies]) for i in (0, 1))
    units = [v.std(axis=1, keepdims=True) for v in (x, y)]
    x, y = (
        ((v - v.mean(axis=1, keepdims=True)) / unit).astype("float32")
        for v, unit in zip((x, y), units, strict=True)
    )
    line = Dense(1)
    inputs, target = input_like(x), input_like(y)
    if scales == "data":
        learned = PerRow()(inputs)
    else:
        both = ops.concatenate([inputs, target], axis=-1)
        learned = Dense(1)(Dense(UNITS, relu=True)(both))
    outputs = line(inputs), POSITIVE(learned)
    # TensorFlow reads no lists from a data set.
    rows = Repeated((x, y), y, steps)
    model = train([inputs, target], outputs, rows)
    found = ops.convert_to_numpy(line.kernel) * units[1] / units[0]
    begin = time.perf_counter()
    model.fit(rows, verbose=0)
    return found[:, 0, 0], time.perf_counter() - begin


class PerRow(keras.layers.Layer):
    """A number for each row of each network, which starts at 0."""

    def build(self, shape):
        size = (*shape[:2], 1)
        self.values = self.add_weight(shape=size, initializer="zeros")

    def call(self, x):
        return self.values + ops.zeros_like(x[:, :, :1])
