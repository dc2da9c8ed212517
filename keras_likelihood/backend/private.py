"""What other libraries keep private and this package cannot do without.

Nothing else in the package names a private attribute of another library. Each
function here has a test, so that a new version of a library breaks one file.
"""

import functools
from typing import Any

import keras

UNTRACKED = ("_jax_state",)
"""Attributes of a Keras model that hold no layers.

On JAX Keras sets all arrays of a model as an attribute after every step, and
would search each of them for layers and variables.
"""


@functools.cache
def functional_model_class() -> type:
    """The class of functional models, which Keras does not export.

    Keras would add it to the bases of `LikelihoodModel`, for all later
    models. This breaks models that define `call`.
    """
    inputs = keras.Input(())
    return type(keras.Model(inputs, inputs))


def become(instance: Any, cls: type):
    """Changes the class of an object, as Keras does with its own models."""
    instance.__class__ = cls


def producer(tensor) -> tuple:
    """The layer that made a symbolic tensor, its inputs and its position.

    `layer.output` is the output of the first call only, but a layer may be
    called twice, and a model inside a model always is.
    """
    layer, node, position = tensor._keras_history
    return layer, list(layer._inbound_nodes[node].input_tensors), position


def has_values(model) -> bool:
    """Whether the variables of a model hold their values.

    On JAX Keras takes the values out of the variables during a training.
    """
    return getattr(model, "_jax_state_synced", True)


def say_has_values(model):
    """Tells Keras that the variables hold their values again."""
    model._jax_state_synced = True


def inputs_of_step(step) -> list:
    """The datasets that a step of a `tf.data` pipeline reads."""
    return list(step._inputs())


def shuffle_repeats(step) -> bool:
    """Whether a shuffle of `tf.data` has one order in all epochs and runs."""
    again = getattr(step, "_reshuffle_each_iteration", None)
    seeds = [getattr(step, name, 0) for name in ("_seed", "_seed2")]
    return again is False and any(int(seed) for seed in seeds)


def order_of_step(step) -> str:
    """The order that a parallel step of `tf.data` was asked to keep.

    Returns:
        `"true"`, `"false"` or `"default"`.
    """
    given = getattr(step, "_deterministic", None)
    if given:
        return given
    import tensorflow as tf

    graph = tf.compat.v1.GraphDef.FromString(
        step._as_serialized_graph().numpy()
    )
    written = [
        node.attr["deterministic"].s.decode()
        for node in graph.node
        if "deterministic" in node.attr
    ]
    return "false" if "false" in written else "default"


def operations_of_step(step) -> list[str]:
    """The types of the operations in the function that a step maps."""
    function = getattr(getattr(step, "_map_func", None), "function", None)
    graph = getattr(function, "graph", None)
    return [o.type for o in graph.get_operations()] if graph else []
