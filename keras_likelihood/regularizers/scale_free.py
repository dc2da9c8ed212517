"""Weights whose size the data cannot tell, as in front of a normalisation.

If the output of a layer is normalised, all multiples of its kernel make the
same predictions. No likelihood then says how large the kernel should be, and
no prior can be learned for it. What a weight decay does there is to set how
fast the direction of the kernel turns: shrunk kernels turn faster (van
Laarhoven, 2017). What counts is the part of the weights that training forgets,
so the strength follows from the length of the training.
"""

import math

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.weight_gradients import fold_gradients

DECAY_OF_A_TRAINING = 5.0
"""Sum over the steps of `rate * strength`: `exp(-5)` of the start is left."""

_LARGEST_SHARE = 0.01


def known_by_graph(model, weights) -> list[bool | None]:
    """Reads from the graph of a functional model which weights are free.

    It knows kernels whose output goes to a batch normalisation and nowhere
    else, and kernels whose output is a prediction.

    Args:
        model: any model.
        weights: the `keras.Variable`s in question.

    Returns:
        For each weight `True` if all its multiples make the same predictions
        in training, `False` if its size matters, `None` if that is unclear.
    """
    readers: dict = {}
    owners: dict = {}
    made: set = set()
    for operation in getattr(model, "operations", None) or []:
        for tensor in keras.tree.flatten(operation.input):
            readers.setdefault(id(tensor), []).append(operation)
        made.update(map(id, keras.tree.flatten(operation.output)))
        if _is_linear(operation):
            owners[id(operation.kernel)] = operation
    predictions = {id(t) for t in keras.tree.flatten(model.outputs or [])}
    if not made >= predictions | readers.keys():
        # Keras tells only the first input and output of a shared layer, so
        # that nothing seems to make the others.
        return [None] * len(weights)

    def known(weight):
        layer = owners.get(id(weight))
        if layer is None:
            return None
        found = readers.get(id(layer.output), [])
        if id(layer.output) in predictions:
            return False if not found else None
        free = found and all(_normalises(op, layer) for op in found)
        return True if free else None

    return [known(w) for w in weights]


def _is_linear(operation):
    return (
        isinstance(operation, _LINEAR)
        and operation.activation is keras.activations.linear
        and not getattr(operation, "lora_enabled", False)
    )


def _normalises(operation, layer):
    if not isinstance(operation, keras.layers.BatchNormalization):
        return False
    axis = len(layer.output.shape) - 1
    last = getattr(layer, "data_format", "channels_last") == "channels_last"
    # A mean of the channel takes the bias away as well.
    per_unit = last and operation.axis in (-1, axis)
    return operation.trainable and (per_unit or not layer.use_bias)


_LINEAR = (
    keras.layers.Dense,
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
)


def scale_free(scores, weights, others, batches, seed) -> list[float | None]:
    """Tells which weights may be multiplied without any change.

    A gradient of the loss is then at a right angle to the weight. In other
    weights it has, squared, about a share `1 / size` along the weight, or
    more; here less than a hundredth of that is asked for.

    Args:
        scores: function from inputs to a scalar with the gradients of a
            likelihood, summed over the examples, in a pass of training.
        weights: the `keras.Variable`s in question.
        others: the other variables of the model.
        batches: nest of arrays `(count, batch, ...)`, inputs of the model.
        seed: a `keras.random.SeedGenerator`.

    Returns:
        For each weight, `None` if its size matters. Else the root mean square
        of the gradient of one example, over the entries of the weight.
    """
    directions = [_direction(w) for w in weights]

    def add(total, gradients):
        every = zip(total, directions, gradients, strict=True)
        return [_add(pair, w, g) for pair, w, g in every]

    total_of = fold_gradients(scores, weights, others, seed, add)
    before = [ops.convert_to_numpy(v).copy() for v in others]
    zeros = [[ops.zeros((), "float32")] * 2 for _ in weights]
    found = total_of(zeros, batches)
    # A training pass moves the averages that normalisations keep.
    for variable, value in zip(others, before, strict=True):
        if not variable.trainable:
            variable.assign(value)
    examples = math.prod(keras.tree.flatten(batches)[0].shape[:2])
    return [
        _gradient_rms(
            float(ops.convert_to_numpy(along)),
            float(ops.convert_to_numpy(whole)),
            math.prod(w.shape),
            examples,
        )
        for (along, whole), w in zip(found, weights, strict=True)
    ]


def _gradient_rms(along, whole, size, examples):
    if not whole > 0 or along * size > _LARGEST_SHARE * whole:
        return None
    return math.sqrt(whole / (examples * size))


def decay_strength(optimizer, steps: int, batch: float, gradient_rms: float):
    """The factor of a weight in its gradient that decays it as it should.

    SGD moves a weight by `rate / (1 - momentum)` times its gradient, and
    optimizers like Adam by `rate / root mean square` times.

    Args:
        optimizer: of the training.
        steps: number of steps of the training.
        batch: number of examples in a step.
        gradient_rms: root mean square of the gradient of one example.

    Returns:
        The strength; `None` for optimizers of another kind.
    """
    every = Rates(optimizer).ahead(np.linspace(0, steps - 1, 64))
    gain = float(np.mean(every))
    if isinstance(optimizer, keras.optimizers.SGD):
        gain /= 1.0 - float(optimizer.momentum)
    elif isinstance(optimizer, _NORMALISING):
        gain /= gradient_rms / math.sqrt(batch)
    else:
        return None
    return DECAY_OF_A_TRAINING / (gain * steps) if gain > 0 else None


_NORMALISING = (
    keras.optimizers.Adam,
    keras.optimizers.Nadam,
    keras.optimizers.RMSprop,
)


class Rates:
    """The learning rates of an optimizer, some steps ahead.

    Args:
        optimizer: a Keras optimizer.
    """

    def __init__(self, optimizer):
        self._optimizer = optimizer
        self._at = None
        rate = optimizer.get_config()["learning_rate"]
        if isinstance(rate, dict):
            try:
                schedule = keras.optimizers.schedules.deserialize(rate)
            except (TypeError, ValueError):
                # The class of a user's own schedule may not be registered.
                return
            self._at = compiled(lambda step: schedule(step), static=0)

    def ahead(self, steps) -> list[float]:
        """The rates so many steps after the present one."""
        if self._at is None:
            now = float(ops.convert_to_numpy(self._optimizer.learning_rate))
            return [now] * len(steps)
        now = int(ops.convert_to_numpy(self._optimizer.iterations))
        # A schedule is a few numbers, too little work for an accelerator.
        with keras.device("cpu"):
            at = [ops.convert_to_tensor(now + int(s), "int32") for s in steps]
            return [float(ops.convert_to_numpy(self._at(s))) for s in at]


def _direction(weight):
    value = ops.convert_to_numpy(weight).astype("float64")
    length = max(float(np.linalg.norm(value)), 1e-30)
    return (value / length).astype("float32")


def _add(pair, direction, gradient):
    gradient = ops.cast(gradient, "float32")
    along = ops.square(ops.sum(gradient * direction))
    return [pair[0] + along, pair[1] + ops.sum(ops.square(gradient))]
