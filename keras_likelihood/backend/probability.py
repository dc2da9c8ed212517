"""The only module that imports TensorFlow Probability."""

import keras


def tfp_distributions():
    """Returns `tensorflow_probability.distributions`."""
    if keras.backend.backend() != "tensorflow":
        raise RuntimeError(
            "`to_tfp` needs Keras on TensorFlow. "
            f"Received: the {keras.backend.backend()} backend"
        )
    try:
        import tensorflow_probability as tfp
    except ImportError as error:
        raise ImportError(
            "`to_tfp` needs TensorFlow Probability: "
            "pip install 'keras-likelihood[tfp]'"
        ) from error
    return tfp.distributions
