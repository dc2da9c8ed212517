"""Gradients of functions, and sums over gradients, on each backend."""

import concurrent.futures
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.types import Tensor


def value_and_gradient(
    function: Callable[..., Any], inputs: list[Any]
) -> tuple[Any, ...]:
    """The value of a function, and the gradient of its sum for each input.

    The value is still differentiable with respect to everything else that
    `function` depends on. The gradients, a list like `inputs`, are constants.
    """
    return value_gradient_and_others(lambda *x: (function(*x), {}), inputs)[:2]


def value_gradient_and_others(
    function: Callable[..., Any], inputs: list[Any]
) -> tuple[Any, ...]:
    """As `value_and_gradient`, for a function that also returns a dict."""
    if not inputs:
        value, others = function()
        return value, [], others
    differentiate = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
    found: tuple[Any, ...] = differentiate[keras.backend.backend()](
        function, inputs
    )
    return found


def _tensorflow(function: Callable[..., Any], inputs: list[Any]) -> Any:
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(inputs)
        value, others = function(*inputs)
    gradients = tape.gradient(
        value, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    # The gradient of an embedding is sparse.
    return value, [tf.convert_to_tensor(g) for g in gradients], others


def _jax(function: Callable[..., Any], inputs: list[Any]) -> Any:
    import jax

    def total(*inputs: Any) -> Any:
        value, others = function(*inputs)
        return value.sum(), (value, others)

    gradients, (value, others) = jax.grad(
        total, argnums=tuple(range(len(inputs))), has_aux=True
    )(*inputs)
    # The training step is differentiated too. Without `stop_gradient` its
    # gradient would include the update of the table.
    return value, [jax.lax.stop_gradient(g) for g in gradients], others


def _torch(function: Callable[..., Any], inputs: list[Any]) -> Any:
    import torch

    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in inputs]
        value, others = function(*leaves)
        # The gradient of the model needs the graph again.
        gradients = torch.autograd.grad(
            value.sum(), leaves, retain_graph=True, materialize_grads=True
        )
    return value, list(gradients), others


class GradientFold:
    """Compiles a sum over the gradients of a scalar function.

    `function` maps a nest of tensors to a scalar. It reads the variables of
    `model` and may draw from `seed`; its assignments are discarded. `fold` maps
    `(total, gradients, values)`, with gradients and values of the `weights`, to
    the next total.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        model: Any,
        weights: list[Any],
        seed: Any,
        fold: Any,
    ) -> None:
        self._function, self._fold = function, fold
        self._weights, self._seed = weights, seed
        known = {id(w) for w in weights}
        # `model.variables` does not include the losses' parameters.
        held = [*model.trainable_variables, *model.non_trainable_variables]
        self._state = [v for v in held if id(v) not in known]
        self._programs: dict[Any, Any] = {}
        self._run: Any = compiled(self._fold_batches)

    def __call__(self, total: Any, batches: Any) -> Tensor:
        """The total over batches `(count, ...)`."""
        begun = self._programs.get(_shapes(batches))
        run = begun.result() if begun is not None else self._run
        total, draws = run(*self._arguments(total, batches))
        self._seed.state.assign(draws)
        return total

    def prepare(self, total: Any, batches: Any) -> None:
        """Starts to compile for arguments of these shapes, in a thread.

        Only JAX compiles ahead. Keras layers are traced in the current thread.
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

    def _arguments(self, total: Any, batches: Any) -> tuple[Any, ...]:
        # Operations on each variable would take longer than the call.
        held = self._seed.state, *self._weights, *self._state
        return total, [ops.convert_to_tensor(v) for v in held], batches

    def _fold_batches(self, total: Any, held: Any, batches: Any) -> Any:
        draws, *held = map(ops.stop_gradient, held)
        current = held[: len(self._weights)]
        others = held[len(self._weights) :]

        def add(i: Tensor, carried: Tensor) -> Any:
            total, draws = carried
            inputs = keras.tree.map_structure(
                lambda a: ops.convert_to_tensor(a[i]), batches
            )

            def value(*current: Any) -> Any:
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

        count = keras.tree.flatten(batches)[0].shape[0]
        if count == 1:
            # A loop takes longer to compile.
            return add(0, (total, draws))
        return ops.fori_loop(0, count, add, (total, draws))


def zeros(shape: Any) -> Tensor:
    """Initial total. JAX would compile `ops.zeros` for each shape."""
    return ops.convert_to_tensor(np.zeros(shape, "float32"))


def _shapes(batches: Any) -> tuple[Tensor, Tensor]:
    return tuple(a.shape for a in keras.tree.flatten(batches))
