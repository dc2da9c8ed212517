"""Derivatives of functions, on each backend, and sums over gradients."""

import concurrent.futures

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import compiled


def value_and_gradient(function, inputs: list) -> tuple:
    """A function of tensors, and the derivatives of its sum by the inputs.

    The value can still be differentiated by everything else that `function`
    depends on. The derivatives, a list like `inputs`, are constants.
    """
    return value_gradient_and_others(lambda *x: (function(*x), {}), inputs)[:2]


def value_gradient_and_others(function, inputs: list) -> tuple:
    """As `value_and_gradient`, for a function that returns a dict as well."""
    if not inputs:
        value, others = function()
        return value, [], others
    differentiate = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
    return differentiate[keras.backend.backend()](function, inputs)


def _tensorflow(function, inputs):
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(inputs)
        value, others = function(*inputs)
    by_inputs = tape.gradient(
        value, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    # The gradient of an embedding has only the rows that were read.
    return value, [tf.convert_to_tensor(g) for g in by_inputs], others


def _jax(function, inputs):
    import jax

    def total(*inputs):
        value, others = function(*inputs)
        return value.sum(), (value, others)

    by_inputs, (value, others) = jax.grad(
        total, argnums=tuple(range(len(inputs))), has_aux=True
    )(*inputs)
    # The step itself is differentiated. Without `stop_gradient` the
    # derivatives would reach the table.
    return value, [jax.lax.stop_gradient(g) for g in by_inputs], others


def _torch(function, inputs):
    import torch

    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in inputs]
        value, others = function(*leaves)
        # The graph is needed again when the model is trained.
        by_inputs = torch.autograd.grad(
            value.sum(), leaves, retain_graph=True, materialize_grads=True
        )
    return value, list(by_inputs), others


class GradientFold:
    """Compiles a sum over the gradients of a scalar function.

    `function` maps a nest of tensors to a scalar. It reads the variables of
    `model` and may draw from `seed`, and nothing that it assigns is kept.
    `fold` maps `(total, gradients, values)` by the `weights` to the next
    total.
    """

    def __init__(self, function, model, weights: list, seed, fold):
        self._function, self._fold = function, fold
        self._weights, self._seed = weights, seed
        known = {id(w) for w in weights}
        # What a loss learns is not among `model.variables`.
        held = [*model.trainable_variables, *model.non_trainable_variables]
        self._state = [v for v in held if id(v) not in known]
        self._programs: dict = {}
        self._run = compiled(self._fold_batches)

    def __call__(self, total, batches):
        """The last total, for batches `(count, ...)`."""
        begun = self._programs.get(_shapes(batches))
        run = begun.result() if begun is not None else self._run
        total, draws = run(*self._arguments(total, batches))
        self._seed.state.assign(draws)
        return total

    def prepare(self, total, batches):
        """Begins to compile for arguments of these shapes, in a thread.

        Only JAX compiles ahead. Keras' layers are traced in this thread.
        """
        if keras.backend.backend() != "jax":
            return
        key = _shapes(batches)
        if key in self._programs or keras.distribution.distribution():
            return
        lowered = self._run.lower(*self._arguments(total, batches))
        pool = concurrent.futures.ThreadPoolExecutor(1)
        self._programs[key] = pool.submit(lowered.compile)
        pool.shutdown(wait=False)

    def _arguments(self, total, batches):
        # An operation on each variable would take longer than the call.
        held = self._seed.state, *self._weights, *self._state
        return total, [ops.convert_to_tensor(v) for v in held], batches

    def _fold_batches(self, total, held, batches):
        draws, *held = map(ops.stop_gradient, held)
        current = held[: len(self._weights)]
        others = held[len(self._weights) :]

        def add(i, carried):
            total, draws = carried
            inputs = keras.tree.map_structure(
                lambda a: ops.convert_to_tensor(a[i]), batches
            )

            def value(*current):
                mapping = [
                    *zip(self._weights, current, strict=True),
                    *zip(self._state, others, strict=True),
                    (self._seed.state, draws),
                ]
                with keras.StatelessScope(state_mapping=mapping) as scope:
                    found = self._function(inputs)
                after = scope.get_current_value(self._seed.state)
                return found, {"draws": after}

            _, gradients, after = value_gradient_and_others(value, current)
            return self._fold(total, gradients, current), after["draws"]

        count = ops.shape(keras.tree.flatten(batches)[0])[0]
        return ops.fori_loop(0, count, add, (total, draws))


def zeros(shape):
    """A total to begin with. JAX compiles `ops.zeros` for each shape."""
    return ops.convert_to_tensor(np.zeros(shape, "float32"))


def _shapes(batches):
    return tuple(a.shape for a in keras.tree.flatten(batches))
