"""What every test starts from."""

import contextlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Tests compile many tiny programs and run each a few times.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

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
