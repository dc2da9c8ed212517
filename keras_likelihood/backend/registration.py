"""Registers the classes of the package for saving and loading."""

import inspect
import re
from typing import Any, Self

import keras

serializable = keras.saving.register_keras_serializable(
    package="keras_likelihood"
)


def snake_case(cls: type) -> str:
    """The name of a class in snake case, such as `normal_crps`."""
    parts = r"(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])"
    return re.sub(parts, "_", cls.__name__).lower()


class FromArguments:
    """A class whose config consists of its constructor arguments.

    It stores the arguments under their own names.
    """

    def get_config(self) -> dict[str, Any]:
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**config)
