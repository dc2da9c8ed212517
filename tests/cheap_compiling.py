"""What makes backends compile faster in tests, private names included.

There are no public ways to the two private ones. Each is left out where a
version lacks it, and `make test-as-users` runs tests without any of them.
"""

import contextlib
import functools
import threading

import keras


def compile_cheaply():
    """Keeps backends from much work for programs that run a few times."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # Threads that hand each other tiny operations mostly wait.
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.optimizer.set_experimental_options(
            {"disable_meta_optimizer": True}
        )
        keep_kernels()
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
