"""Loads models from files and copies models."""

import os
import pathlib
import tempfile
import warnings
from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.files import reading
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.reading.archives import check_model


def load_model(model: Any) -> keras.Model:
    """Returns the model, or loads it in safe mode, which runs no code."""
    if isinstance(model, keras.Model):
        return model
    allowed = "a `keras.Model` or the path of a `.keras` file. For arrays of "
    allowed += "outputs use `fit_arrays`"
    fits = isinstance(model, str | os.PathLike)
    check_argument("model", model, fits, allowed)
    path = os.fspath(model)
    if not os.path.exists(path):
        raise ValueError(f"There is no such file. Received: {path!r}")
    if path.endswith(".keras"):
        check_model(path)
    with reading(path, "a model of registered classes"):
        loaded = keras.models.load_model(path, compile=False, safe_mode=True)
        if isinstance(loaded, LikelihoodModel):
            # The loss of a `LikelihoodModel` has learned parameters. Other
            # losses may run any code and are not loaded.
            loaded = keras.models.load_model(path, safe_mode=True)
    if not isinstance(loaded, keras.Model):
        received = type(loaded).__name__
        raise ValueError(
            f"{path}: the file must hold a model. Received: {received}"
        )
    return loaded


def copy_model(model: Any, example: Any = None) -> tuple[keras.Model, bool]:
    """Copies a model as a graph: `(graph, whether it has its own weights)`."""
    if is_graph(model):
        # The copy has no learned loss parameters and no user-defined class.
        graph = keras.Model(
            _structure(model, "input"), output_of(model), name=model.name
        )
    else:
        arrays = keras.tree.flatten(example)
        if not arrays or not all(hasattr(a, "shape") for a in arrays):
            raise ValueError(
                "A model that is not a graph needs arrays as `x`, or batches "
                "that can be read twice. Received: "
                f"{type(model).__name__} and {type(example).__name__}"
            )
        inputs = keras.tree.map_structure(_input_like, example)
        graph = keras.Model(inputs, model(inputs), name=model.name)
    try:
        copy = keras.models.clone_model(graph)
        # A file is used, because `set_weights` is not enough for layers such
        # as Normalization.
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "copy.weights.h5"
            graph.save_weights(path)
            copy.load_weights(path)
    except (NotImplementedError, TypeError, ValueError):
        copy = None
    if copy is not None and (example is None or _agree(graph, copy, example)):
        return copy, True
    warnings.warn(
        f"{type(model).__name__} has no `get_config` from which a copy can "
        "be made. The new model shares its layers: training one changes the "
        "other.",
        stacklevel=2,
    )
    return graph, False


def is_graph(layer: Any) -> bool:
    """Whether a layer is a model whose graph is known."""
    return isinstance(layer, keras.Model) and bool(
        getattr(layer, "inputs", None) and getattr(layer, "outputs", None)
    )


def output_of(model: keras.Model) -> Any:
    """The symbolic output of a graph, in its structure."""
    return _structure(model, "output")


def _structure(model: keras.Model, side: str) -> Any:
    if not isinstance(model, keras.Sequential):
        return getattr(model, side)
    tensors = getattr(model, f"{side}s")
    return tensors[0] if len(tensors) == 1 else tensors


def _input_like(array: Any) -> Tensor:
    dtype = None if array.dtype.kind == "f" else array.dtype.name
    return keras.Input(array.shape[1:], dtype=dtype)


def _agree(model: Any, copy: Any, example: Any) -> bool:
    few = keras.tree.map_structure(lambda array: array[:2], example)
    outputs = (keras.tree.flatten(each(few)) for each in (model, copy))
    arrays = (map(keras.ops.convert_to_numpy, tensors) for tensors in outputs)
    pairs = zip(*arrays, strict=True)
    return all(np.allclose(a, b, 1e-3, 1e-4, equal_nan=True) for a, b in pairs)
