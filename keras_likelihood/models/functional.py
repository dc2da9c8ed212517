"""Likelihood models that are made from inputs and outputs."""

import functools
from typing import Any

import keras


def describes_graph(args, kwargs) -> bool:
    """Whether a model is made from inputs and outputs."""
    given = len(args) + sum(name in kwargs for name in ("inputs", "outputs"))
    return given >= 2


def functional_class(cls, args, kwargs) -> type:
    """`cls` as a functional model.

    Keras would change the bases of `cls`, and of `LikelihoodModel` with it,
    for all later models. This breaks models that define `call`.
    """
    functional: Any = type(keras.Model(*args, **kwargs))
    return _functional_class(cls, functional)


@functools.cache
def _functional_class(cls, functional):
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
    return made
