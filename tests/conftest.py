"""What every test starts from."""

import contextlib
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The arrays of tests are tiny, and the workers of a run share the cores: with
# more threads NumPy and PyTorch spend most of the time waiting in turns.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")
# Tests compile many tiny programs and run each a few times.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Many programs are alike: those of a model and of the model loaded from its
# file, for one. JAX compiles such a program once and then reads it from a
# folder, which all workers of a run share, as they inherit this environment.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _programs = tempfile.TemporaryDirectory(
        prefix="jax-programs-", ignore_cleanup_errors=True
    )
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _programs.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import keras
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _same_seed():
    keras.utils.set_random_seed(0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def double_precision():
    """Lets float64 tensors be float64 on JAX too."""
    with contextlib.ExitStack() as stack:
        if keras.backend.backend() == "jax":
            import jax

            stack.enter_context(jax.enable_x64(True))
        yield


@pytest.fixture(params=["mixed_float16", "mixed_bfloat16"])
def mixed_precision(request):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)
