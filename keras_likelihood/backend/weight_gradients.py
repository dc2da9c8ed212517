"""Gradients with respect to the weights of a model, outside of its step."""

import concurrent.futures

import keras


class GradientFold:
    """Compiles a sum over the gradients of a scalar function.

    Nothing that `function` assigns to a variable is kept.

    Args:
        function: maps a nest of tensors to one scalar tensor; it reads
            variables as Keras layers do, and may draw from `seed`.
        weights: the `keras.Variable`s to differentiate by.
        state: all other variables that `function` reads.
        seed: a `keras.random.SeedGenerator`.
        fold: maps `(total, gradients, values)` to the next total, a nest of
            tensors; `gradients` and the `values` of the weights are lists
            like `weights`.
    """

    def __init__(self, function, weights: list, state: list, seed, fold):
        self._function = function
        self._weights, self._state, self._seed = weights, state, seed
        self._fold = fold
        self._programs: dict = {}
        backend = keras.backend.backend()
        self._run = getattr(self, f"_make_{backend}")()

    def __call__(self, total, batches):
        """The last total.

        Args:
            total: the first total, a nest of tensors.
            batches: nest of arrays `(count, ...)`, whose rows are the
                arguments of `function`.
        """
        arguments = self._arguments(total, batches)
        begun = self._programs.get(_shapes(batches))
        run = begun.result() if begun is not None else self._run
        total, draws = run(*arguments)
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
        current, others = (
            [keras.ops.convert_to_tensor(v.value) for v in variables]
            for variables in (self._weights, self._state)
        )
        return total, self._seed.state.value, current, others, batches

    def _value(self, current, others, draws, inputs):
        """`function` at given values of the variables, and the next draws."""
        mapping = [
            *zip(self._weights, current, strict=True),
            *zip(self._state, others, strict=True),
            (self._seed.state, draws),
        ]
        with keras.StatelessScope(state_mapping=mapping) as scope:
            found = self._function(inputs)
        return found, scope.get_current_value(self._seed.state)

    def _make_jax(self):
        import jax

        @jax.jit
        def run(total, draws, current, others, batches):
            def step(carried, inputs):
                total, draws = carried
                gradients, draws = jax.grad(self._value, has_aux=True)(
                    current, others, draws, inputs
                )
                return (self._fold(total, gradients, current), draws), None

            return jax.lax.scan(step, (total, draws), batches)[0]

        return run

    def _make_tensorflow(self):
        import tensorflow as tf

        def step(total, draws, current, others, inputs):
            with tf.GradientTape() as tape:
                tape.watch(current)
                value, draws = self._value(current, others, draws, inputs)
            gradients = tape.gradient(
                value,
                current,
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            # The gradient of an embedding holds only the rows that were read.
            gradients = [tf.convert_to_tensor(g) for g in gradients]
            return self._fold(total, gradients, current), draws

        # The loop is in the graph, as thousands of calls would take seconds.
        @tf.function(autograph=False, reduce_retracing=True)
        def run(total, draws, current, others, batches):
            count = tf.shape(tf.nest.flatten(batches)[0])[0]

            def add(i, total, draws):
                batch = tf.nest.map_structure(lambda a: a[i], batches)
                return i + 1, *step(total, draws, current, others, batch)

            start = tf.nest.map_structure(tf.identity, total)
            start = tf.constant(0), start, tf.convert_to_tensor(draws)
            return tf.while_loop(lambda i, *_: i < count, add, start)[1:]

        def read(values):
            # Variables that several devices share are read on this one.
            return tf.nest.map_structure(tf.identity, values)

        return lambda total, draws, current, others, batches: run(
            total, read(draws), read(current), read(others), batches
        )

    def _make_torch(self):
        import torch

        def run(total, draws, current, others, batches):
            current = [v.detach().requires_grad_() for v in current]
            for i in range(len(keras.tree.flatten(batches)[0])):
                inputs = keras.tree.map_structure(
                    lambda a, i=i: keras.ops.convert_to_tensor(a[i]), batches
                )
                with torch.enable_grad():
                    value, draws = self._value(current, others, draws, inputs)
                    found = torch.autograd.grad(
                        value, current, allow_unused=True
                    )
                gradients = [
                    torch.zeros_like(v) if g is None else g
                    for g, v in zip(found, current, strict=True)
                ]
                with torch.no_grad():
                    total = self._fold(total, gradients, current)
            return total, draws

        return run


def sync_variables(model):
    """Makes the variables of a model current in the middle of `fit`.

    On JAX a training step keeps them outside of the model.
    """
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()


def _shapes(batches):
    return tuple(a.shape for a in keras.tree.flatten(batches))
