"""Gradients with respect to the weights of a model, outside of its step."""

import concurrent.futures

import keras
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.rows import value_gradient_and_others


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
        draws, current, others = keras.tree.map_structure(
            ops.stop_gradient, (self._seed.state, self._weights, self._state)
        )
        return total, draws, current, others, batches

    def _fold_batches(self, total, draws, current, others, batches):
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


def sync_variables(model):
    """Makes variables current in the middle of `fit`, where JAX keeps them."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()


def _shapes(batches):
    return tuple(a.shape for a in keras.tree.flatten(batches))
