"""Gradients by the weights of a model, outside of its training step."""

import concurrent.futures

import keras


def fold_gradients(function, weights: list, state: list, seed, fold):
    """Compiles a sum over the gradients of a scalar function.

    Args:
        function: maps a nest of tensors to one scalar tensor; it reads
            variables as Keras layers do, and may draw from `seed`.
        weights: the `keras.Variable`s to differentiate by.
        state: all other variables that `function` reads.
        seed: a `keras.random.SeedGenerator`.
        fold: maps `(total, gradients)` to the next total, a nest of tensors;
            `gradients` is a list like `weights`.

    Returns:
        A function of `(total, batches)` that returns the last total.
        `batches` is a nest of arrays `(count, ...)`, whose rows are the
        arguments of `function`.
    """
    make = _BY_BACKEND[keras.backend.backend()]
    return make(function, weights, state, seed, fold)


def compiled_beside(total_of, total, batches):
    """Begins to compile what `fold_gradients` returned, in a thread.

    Args:
        total_of: function made by `fold_gradients`.
        total: its first argument, in shape.
        batches: its second argument, in shape.

    Returns:
        A function like `total_of`, for arguments of these shapes.
    """
    begin = getattr(total_of, "begin", None)
    return begin(total, batches) if begin else total_of


def sync_variables(model):
    """Makes the variables of a model current in the middle of `fit`.

    On JAX a training step keeps them outside of the model.
    """
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()


def _one_by_one(step):
    """Sums in a Python loop over a compiled step."""

    def total_of(total, batches):
        for i in range(len(keras.tree.flatten(batches)[0])):
            batch = keras.tree.map_structure(
                lambda a, i=i: keras.ops.convert_to_tensor(a[i]), batches
            )
            total = step(total, batch)
        return total

    return total_of


def _tensorflow(function, weights, state, seed, fold):
    import tensorflow as tf

    def step(total, draws, current, others, inputs):
        with tf.GradientTape() as tape:
            tape.watch(current)
            value, draws = _value_of(
                function, weights, current, state, others, seed, draws, inputs
            )
        gradients = tape.gradient(
            value,
            current,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        # The gradient of an embedding holds only the rows that were read.
        return fold(total, [tf.convert_to_tensor(g) for g in gradients]), draws

    # The loop is in the graph, because thousands of calls would take seconds.
    @tf.function(autograph=False, reduce_retracing=True)
    def compiled(total, draws, current, others, batches):
        count = tf.shape(tf.nest.flatten(batches)[0])[0]

        def add(i, total, draws):
            batch = tf.nest.map_structure(lambda a: a[i], batches)
            return i + 1, *step(total, draws, current, others, batch)

        start = tf.nest.map_structure(tf.identity, total)
        start = tf.constant(0), start, draws
        return tf.while_loop(lambda i, *_: i < count, add, start)[1:]

    def total_of(total, batches):
        # Outside of the replicas one cannot differentiate by a variable of
        # several replicas, but by its value.
        current, others = (
            [tf.convert_to_tensor(v.value) for v in variables]
            for variables in (weights, state)
        )
        draws = tf.convert_to_tensor(seed.state.value)
        total, draws = compiled(total, draws, current, others, batches)
        seed.state.assign(draws)
        return total

    return total_of


def _value_of(function, weights, current, state, others, seed, draws, inputs):
    """`function` at given values of the variables, and the next draws."""
    mapping = [
        *zip(weights, current, strict=True),
        *zip(state, others, strict=True),
        (seed.state, draws),
    ]
    with keras.StatelessScope(state_mapping=mapping) as scope:
        found = function(inputs)
    return found, scope.get_current_value(seed.state)


def _jax(function, weights, state, seed, fold):
    import jax

    def value(current, others, draws, inputs):
        return _value_of(
            function, weights, current, state, others, seed, draws, inputs
        )

    @jax.jit
    def compiled(total, current, others, draws, batches):
        def step(carried, inputs):
            total, draws = carried
            gradients, draws = jax.grad(value, has_aux=True)(
                current, others, draws, inputs
            )
            return (fold(total, gradients), draws), None

        return jax.lax.scan(step, (total, draws), batches)[0]

    def arguments(total, batches):
        current = [w.value for w in weights]
        others = [v.value for v in state]
        return total, current, others, seed.state.value, batches

    def using(run):
        def total_of(total, batches):
            total, draws = run()(*arguments(total, batches))
            seed.state.assign(draws)
            return total

        return total_of

    def begin(total, batches):
        # Only the lowered program is another thread's work: Keras' layers
        # are traced in this one.
        lowered = compiled.lower(*arguments(total, batches))
        pool = concurrent.futures.ThreadPoolExecutor(1)
        program = pool.submit(lowered.compile)
        pool.shutdown(wait=False)
        return using(program.result)

    total_of = using(lambda: compiled)
    if keras.distribution.distribution() is None:
        total_of.begin = begin
    return total_of


def _torch(function, weights, state, seed, fold):
    import torch

    def step(total, inputs):
        values = [w.value for w in weights]
        with torch.enable_grad():
            found = torch.autograd.grad(
                function(inputs), values, allow_unused=True
            )
        gradients = [
            torch.zeros_like(v) if g is None else g
            for g, v in zip(found, values, strict=True)
        ]
        with torch.no_grad():
            return fold(total, gradients)

    return _one_by_one(step)


_BY_BACKEND = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
