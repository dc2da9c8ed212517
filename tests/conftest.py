"""Options, markers and fixtures of the test suite."""

import collections
import contextlib
import gc
import os
import shutil
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Test arrays are tiny and the workers share the cores. With more threads, NumPy
# and PyTorch spend most of their time waiting.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
# Tests compile many tiny programs and run each a few times, so most
# optimizations are disabled. `make test-as-users` runs some tests with them.
if "AS_USERS" not in os.environ:
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    if os.environ.get("KERAS_BACKEND") == "jax":
        # Compiling takes less than half the time.
        os.environ.setdefault(
            "XLA_FLAGS",
            "--xla_cpu_use_fusion_emitters=false "
            "--xla_cpu_parallel_codegen_split_count=1",
        )
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import pytest


def pytest_configure(config):
    """Prepares the backend, except in the controller of xdist.

    Importing a backend takes seconds.
    """
    share_programs(config)
    hands_out = config.getoption("dist", "no") != "no"
    if not hands_out or hasattr(config, "workerinput"):
        if "AS_USERS" not in os.environ:
            from tests.cheap_compiling import compile_cheaply

            compile_cheaply()
        collect_rarely()


def pytest_addoption(parser):
    parser.addoption(
        "--every-test",
        action="store_true",
        help="also run the tests that do not use a backend",
    )
    parser.addoption(
        "--every-case",
        action="store_true",
        help="run every case of the tests marked `few`",
    )


def pytest_collection_modifyitems(config, items):
    left = set()
    if not config.getoption("every_test"):
        left |= tests_of_another_backend(items)
    if not config.getoption("every_case"):
        left |= further_cases(items)
    if left:
        config.hook.pytest_deselected(items=[i for i in items if i in left])
        items[:] = [i for i in items if i not in left]


def tests_of_another_backend(items):
    """Tests that do not use a backend. They run only with PyTorch."""
    if os.environ.get("KERAS_BACKEND") == "torch":
        return set()
    return {i for i in items if i.get_closest_marker("one_backend")}


def further_cases(items):
    """Cases that the mark `few` leaves out.

    The cases that run are spread evenly over all cases.
    """
    cases = collections.defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("few"):
            cases[item.path, item.originalname, mark.args[0]].append(item)
    left = set()
    for (*_, count), every in cases.items():
        kept = {i * len(every) // count for i in range(count)}
        left |= {item for i, item in enumerate(every) if i not in kept}
    return left


def share_programs(config):
    """Makes JAX compile equal programs once per run.

    For example, a model and the same model loaded from a file have equal
    programs. All workers inherit the folder through the environment.
    """
    name = "JAX_COMPILATION_CACHE_DIR"
    if os.environ.get("KERAS_BACKEND") == "jax" and name not in os.environ:
        folder = tempfile.mkdtemp(prefix="jax-programs-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ[name] = folder


def collect_rarely():
    """Makes garbage collection rare, and exempts the imported modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


@pytest.fixture(autouse=True)
def _same_seed():
    import keras

    keras.utils.set_random_seed(0)


@pytest.fixture(autouse=True)
def _one_backend(request):
    """Fails a test marked `one_backend` if it uses PyTorch."""
    import keras

    marked = request.node.get_closest_marker("one_backend")
    if not marked or keras.backend.backend() != "torch":
        yield
        return
    from torch.utils import _python_dispatch

    class Refuse(_python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            raise AssertionError(
                "A test of the mark `one_backend` must not use the backend. "
                f"Received: {function}"
            )

    with Refuse():
        yield


@pytest.fixture
def rng():
    import numpy as np

    return np.random.default_rng(0)


@pytest.fixture
def double_precision():
    """Enables float64 tensors on JAX."""
    import keras

    with contextlib.ExitStack() as stack:
        if keras.backend.backend() == "jax":
            import jax

            stack.enter_context(jax.enable_x64(True))
        yield


@pytest.fixture
def step_by_step(monkeypatch):
    """Runs models eagerly on TensorFlow, except with `AS_USERS`.

    For tests that do not depend on the compiled step: tracing takes most of
    their time.
    """
    import keras

    if keras.backend.backend() == "tensorflow" and "AS_USERS" not in os.environ:
        always = property(lambda model: True, lambda model, value: None)
        monkeypatch.setattr(keras.Model, "run_eagerly", always)


@pytest.fixture(params=["mixed_float16", "mixed_bfloat16"])
def mixed_precision(request):
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(before)
