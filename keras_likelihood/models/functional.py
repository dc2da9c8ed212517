"""Likelihood models that are made from inputs and outputs."""

import functools
from typing import Any

import keras

from keras_likelihood.backend.private import functional_model_class


def describes_graph(args, kwargs) -> bool:
    """Whether a model is made from inputs and outputs."""
    given = len(args) + sum(name in kwargs for name in ("inputs", "outputs"))
    return given >= 2


@functools.cache
def functional_class(cls: Any) -> Any:
    """`cls` as a class of functional models, with the same saved name."""
    functional = functional_model_class()
    if issubclass(cls, functional):
        return cls
    made = type(
        cls.__name__,
        (cls, functional),
        {"__module__": cls.__module__, "_is_functional": True},
    )
    package, _, name = keras.saving.get_registered_name(cls).rpartition(">")
    if package:
        keras.saving.register_keras_serializable(package, name)(made)
        # A file in the old .h5 format names the class alone.
        keras.saving.get_custom_objects().setdefault(name, made)
    return made
