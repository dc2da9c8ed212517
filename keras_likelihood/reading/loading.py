"""Models from files, and models of one's own from other people's."""

import os
import pathlib
import tempfile
import warnings

import keras

from keras_likelihood.models import LikelihoodModel


def load_model(model) -> keras.Model:
    """Returns the model itself, or loads it from a `.keras` file.

    Files are loaded in safe mode, so that no code in them runs.

    Args:
        model: a `keras.Model`, or the path of a `.keras` file.
    """
    if isinstance(model, keras.Model):
        return model
    if not isinstance(model, str | os.PathLike):
        raise ValueError(
            "`model` must be a `keras.Model` or the path of a `.keras` file. "
            f"Received: {type(model).__name__}"
        )
    path = os.fspath(model)
    if not os.path.exists(path):
        raise ValueError(f"There is no such file. Received: {path!r}")
    loaded = keras.models.load_model(path, compile=False, safe_mode=True)
    if isinstance(loaded, LikelihoodModel):
        # Its loss holds what it learned; other losses may be anyone's code.
        loaded = keras.models.load_model(path, safe_mode=True)
    return loaded


def copy_model(model, example=None) -> keras.Model:
    """Returns a graph that is a copy of the model, with its own weights.

    A model that cannot be copied is used as it is, with a warning.

    Args:
        model: a `keras.Model`.
        example: inputs, for models that were not built as a graph.
    """
    if not is_graph(model):
        return _copy_subclass(model, example)
    # A plain graph: neither what a loss learns nor a class of the user's.
    plain = keras.Model(
        _structure(model, "input"), output_of(model), name=model.name
    )
    copy = keras.models.clone_model(plain)
    _copy_weights(plain, copy)
    return copy


def is_graph(layer) -> bool:
    """Whether a layer is a model whose graph is known."""
    return isinstance(layer, keras.Model) and bool(
        getattr(layer, "inputs", None) and getattr(layer, "outputs", None)
    )


def output_of(model):
    """The symbolic output of a graph, in its structure."""
    return _structure(model, "output")


def _structure(model, side):
    if not isinstance(model, keras.Sequential):
        return getattr(model, side)
    tensors = getattr(model, f"{side}s")
    return tensors[0] if len(tensors) == 1 else tensors


def _copy_subclass(model, example):
    arrays = keras.tree.flatten(example)
    if not arrays or not all(hasattr(a, "shape") for a in arrays):
        raise ValueError(
            "A model without a graph of its own needs arrays as `x`, or "
            "batches that can be read twice. "
            f"Received: {type(model).__name__} and {type(example).__name__}"
        )
    inputs = keras.tree.map_structure(_input_like, example)
    if not model.built:
        model(inputs)
    try:
        copy = type(model).from_config(model.get_config())
    except (NotImplementedError, TypeError):
        warnings.warn(
            f"{type(model).__name__} has no `get_config` to copy it by: the "
            "recalibrated model shares its layers, so that training one "
            "changes the other.",
            stacklevel=2,
        )
        return keras.Model(inputs, model(inputs), name=model.name)
    graph = keras.Model(inputs, copy(inputs), name=model.name)
    _copy_weights(model, copy)
    return graph


def _input_like(array):
    dtype = None if array.dtype.kind == "f" else array.dtype.name
    return keras.Input(array.shape[1:], dtype=dtype)


def _copy_weights(model, copy):
    # By a file: layers such as Normalization do more on loading than
    # `set_weights` does.
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "copy.weights.h5"
        model.save_weights(path)
        copy.load_weights(path)
