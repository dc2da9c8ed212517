"""Makes backends compile faster in tests, partly by private names.

There are no public ways to the two private ones. Each is left out where a
version lacks it, and `make test-as-users` runs tests without any of them.
"""

import contextlib
import functools
import threading

import keras


def compile_cheaply():
    """Saves compilation work for programs that run only a few times."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # Threads with tiny operations mostly wait for each other.
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.optimizer.set_experimental_options(
            {"disable_meta_optimizer": True}
        )
        keep_kernels()
    elif keras.backend.backend() == "jax":
        share_contexts()


def share_contexts():
    """Creates the context in which JAX translates programs once per thread.

    Otherwise it takes a quarter of the time of a small program.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from jax._src.interpreters import mlir

        make = mlir.make_ir_context
        of_thread = functools.cache(lambda thread: make())
        mlir.make_ir_context = lambda: of_thread(threading.get_ident())


def keep_kernels():
    """Keeps the operations that TensorFlow prepared from test to test.

    Setting a seed, as every test does, clears them because of stateful random
    operations, which Keras and the package do not use. Preparing an operation
    takes ten times as long as running it.
    """
    with contextlib.suppress(ImportError):
        from tensorflow.python import pywrap_tfe

        if hasattr(pywrap_tfe, "TFE_ContextClearCaches"):
            pywrap_tfe.TFE_ContextClearCaches = lambda context: None
