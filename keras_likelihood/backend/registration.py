"""Registers the classes of the package, so that saved files can be loaded."""

import keras

serializable = keras.saving.register_keras_serializable(
    package="keras_likelihood"
)
