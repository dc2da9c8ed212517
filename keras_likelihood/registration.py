"""How the package's classes find their way back from a saved file."""

import keras

serializable = keras.saving.register_keras_serializable(
    package="keras_likelihood"
)
