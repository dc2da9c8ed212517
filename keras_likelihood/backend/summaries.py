"""The only module that writes files for TensorBoard."""

import numpy as np


def write_histogram(directory: str, name: str, values: np.ndarray, step: int):
    """Adds a histogram of `values` to the event files of `directory`."""
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "`tensorboard=...` needs TensorFlow: "
            "pip install 'keras-likelihood[tensorflow]'"
        ) from error
    writer = tf.summary.create_file_writer(directory)
    with writer.as_default():
        tf.summary.histogram(name, values, step=step)
    writer.close()
