"""Access to private attributes of other libraries.

No other module uses private attributes of another library. Each function here
has a test, so a new version of a library can only break this file.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras

from keras_likelihood.backend.types import Tensor

UNTRACKED = ("_jax_state",)
"""Attributes of a Keras model that contain JAX arrays instead of layers."""


@functools.cache
def functional_model_class() -> type:
    """The class of functional models, which Keras does not export."""
    inputs = keras.Input(())
    return type(keras.Model(inputs, inputs))


def become(instance: Any, cls: type) -> None:
    """Changes the class of an object, as Keras does with its models."""
    instance.__class__ = cls


def producer(tensor: Any) -> tuple[Any, list[Any], int]:
    """The layer of a symbolic tensor, the layer's inputs and the position.

    `layer.output` is only the output of the first call, but a layer may be
    called twice, and a nested model always is.
    """
    layer, node, position = tensor._keras_history
    return layer, list(layer._inbound_nodes[node].input_tensors), position


def mask_of(prediction: Any) -> Any:
    """The Keras mask of `(batch, ..., units)` as numbers `(batch, ...)`.

    It is `None` without a mask. On JAX Keras keeps masks beside the tensors,
    where only its own code finds them.
    """
    is_torch = keras.backend.backend() == "torch"
    if is_torch and getattr(prediction, "_keras_mask", None) is None:
        # The way below takes a tenth of an eager step of a small network.
        return None
    first = prediction[..., 0] if len(prediction.shape) > 1 else prediction
    ones = keras.ops.ones_like(first, dtype=keras.config.floatx())
    options = {"reduction": "none", "dtype": ones.dtype}
    # Keras multiplies the loss, which is 1, by the mask.
    weighted = loss_of_function(lambda *_: ones, **options)(ones, prediction)
    return None if weighted is ones else weighted


def loss_of_function(
    function: Callable[..., Tensor], **options: Any
) -> keras.losses.Loss:
    """A loss from a function, which aligns the ranks as Keras does."""
    wrapper = keras.losses.MeanSquaredError.__mro__[1]
    # TensorFlow does not allow brackets, as in "<lambda>", in names.
    name = getattr(function, "__name__", "loss").strip("<>_")
    return wrapper(function, name=name or "loss", **options)


def uncompiled_layers(model: Any) -> list[str]:
    """Names of the layers that Keras marks as impossible to compile."""
    return [v.name for v in model._flatten_layers() if not v.supports_jit]


def has_producer(tensor: Any) -> bool:
    """Whether a tensor is symbolic and `producer` finds its layer."""
    return hasattr(tensor, "_keras_history")


def exclude_from_weight_decay(optimizer: Any, variables: list[Any]) -> None:
    """Excludes further variables from weight decay, also when it is built.

    Keras' own method replaces the variables of an earlier call.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if not getattr(optimizer, "weight_decay", None):
        return
    excluded: Any = getattr(optimizer, "_exclude_from_weight_decay", set())
    keys = {optimizer._var_key(variable) for variable in variables}
    optimizer._exclude_from_weight_decay = excluded | keys
    optimizer._exclude_from_weight_decay_cache = {}


def has_values(model: Any) -> bool:
    """Whether variables have values, which Keras moves out on JAX."""
    return getattr(model, "_jax_state_synced", True)


def say_has_values(model: Any) -> None:
    """Marks the variables as having values again."""
    model._jax_state_synced = True


def why_not_numbered(dataset: Any) -> str | None:
    """The step of a `tf.data.Dataset` that prevents numbering, or `None`.

    Every epoch must yield single examples in the same order. All steps before
    `dataset` are checked, and the functions inside them.
    """
    free = ["false"]
    if dataset.options().deterministic is False:
        free.append("default")
    stack, unbatched = [dataset], False
    while stack:
        step = stack.pop()
        kind = type(step).__name__.strip("_")
        unbatched = unbatched or "Unbatch" in kind
        is_batch = "Batch" in kind or "Window" in kind
        if (
            (is_batch and not unbatched)
            or ("Shuffle" in kind and not _shuffle_repeats(step))
            or "DirectedInterleave" in kind
            or "Random" in kind
        ):
            return kind
        if "Parallel" in kind and _order_of_step(step) in free:
            return f"{kind} that is not deterministic"
        function = getattr(getattr(step, "_map_func", None), "function", None)
        graph = getattr(function, "graph", None)
        inner = graph.get_operations() if graph else []
        if any("Shuffle" in operation.type for operation in inner):
            return f"{kind} over shuffled datasets"
        stack.extend(step._inputs())
    return None


def _shuffle_repeats(step: Any) -> bool:
    """Whether a shuffle of `tf.data` repeats its order in all epochs."""
    again = getattr(step, "_reshuffle_each_iteration", None)
    seeds = [getattr(step, name, 0) for name in ("_seed", "_seed2")]
    return again is False and any(int(seed) for seed in seeds)


def _order_of_step(step: Any) -> str:
    """The option `deterministic` of a parallel step, or `"default"`."""
    if option := getattr(step, "_deterministic", None):
        return str(option)
    import tensorflow as tf

    content = step._as_serialized_graph().numpy()
    nodes = tf.compat.v1.GraphDef.FromString(content).node
    is_free = any(node.attr["deterministic"].s == b"false" for node in nodes)
    return "false" if is_free else "default"
