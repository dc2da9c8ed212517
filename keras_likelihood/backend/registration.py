"""Registers the classes of the package, so that saved files can be loaded."""

import inspect
import re

import keras

serializable = keras.saving.register_keras_serializable(
    package="keras_likelihood"
)


def snake_case(cls: type) -> str:
    """The name of a class as Keras writes it: `normal_crps`."""
    parts = r"(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])"
    return re.sub(parts, "_", cls.__name__).lower()


class FromArguments:
    """A class that stores the arguments of its constructor by their names.

    Its config is made from these.
    """

    def get_config(self) -> dict:
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_config(cls, config):
        return cls(**config)
