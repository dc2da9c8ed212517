"""What makes backends compile faster in tests, private names included.

There are no public ways to the private ones. Each is left out where a
version lacks it, and `make test-as-users` runs tests without any of them.
"""

import contextlib
import functools
import threading

import keras
import numpy as np


def compile_cheaply():
    """Keeps backends from much work for programs that run a few times."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.optimizer.set_experimental_options(
            {"disable_meta_optimizer": True}
        )
        keep_kernels()
        feed_rows_plainly()
    elif keras.backend.backend() == "jax":
        share_contexts()


def share_contexts():
    """Makes the context in which JAX translates programs once per thread.

    Making one for each program takes a quarter of the time of a small one.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src.interpreters import mlir

        make = mlir.make_ir_context
        of_thread = functools.cache(lambda thread: make())
        mlir.make_ir_context = lambda: of_thread(threading.get_ident())


def keep_kernels():
    """Keeps what TensorFlow prepared for an operation from test to test.

    Setting a seed, as every test does, throws all of it away, for the sake
    of random operations with a state of their own. Keras and the package use
    none. To prepare an operation takes ten times as long as to run it.
    """
    with contextlib.suppress(ImportError):
        from tensorflow.python import pywrap_tfe

        if hasattr(pywrap_tfe, "TFE_ContextClearCaches"):
            pywrap_tfe.TFE_ContextClearCaches = lambda context: None


def feed_rows_plainly():
    """Lets Keras feed small arrays to TensorFlow without functions to trace.

    Keras maps three functions over the rows, which pays for large arrays.
    Every call of `fit`, `evaluate` and `predict` traces them again, and that
    takes longer than to train on a small table.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from keras.src.trainers.data_adapters import array_data_adapter

        adapter = array_data_adapter.ArrayDataAdapter
        adapter.get_tf_dataset = _plain_dataset(adapter.get_tf_dataset)


def _plain_dataset(otherwise):
    import tensorflow as tf

    @functools.wraps(otherwise)
    def get_tf_dataset(self):
        arrays = self._inputs
        rows, shuffle = self._num_samples, self._shuffle
        is_plain = all(
            isinstance(a, np.ndarray) and a.dtype.kind in "biuf"
            for a in keras.tree.flatten(arrays)
        )
        if not is_plain or rows > 10_000 or shuffle not in (True, False):
            return otherwise(self)
        arrays = keras.tree.lists_to_tuples(
            keras.tree.map_structure(_as_keras_does, arrays)
        )
        found = tf.data.Dataset.from_tensor_slices(arrays)
        if shuffle:
            seed = np.random.randint(2**31)
            found = found.shuffle(rows, seed=seed)
        options = tf.data.Options()
        options.experimental_optimization.apply_default_optimizations = False
        options.autotune.enabled = False
        # Where all batches have one size, TensorFlow knows the size.
        is_even = rows % self._batch_size == 0
        found = found.batch(self._batch_size, drop_remainder=is_even)
        return found.with_options(options)

    return get_tf_dataset


def _as_keras_does(array):
    is_float = array.dtype.kind == "f"
    return array.astype(keras.config.floatx()) if is_float else array
