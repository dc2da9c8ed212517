"""Quadrature is compiled once, not on every call."""

import contextlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.constraints import Exp
from tests.autodiff import gradients

METHODS = {
    "cdf": lambda d: d.cdf(np.ones((10, 1), "float32")),
    "quantile": lambda d: d.quantile(0.3),
    "interval": lambda d: d.interval(0.9),
    "sample": lambda d: d.sample(seed=1),
    "information": lambda d: d.information(),
}


@contextlib.contextmanager
def compilations():
    """Yields a list that gets an entry for every program JAX compiles."""
    import jax

    found = []

    def listen(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def distribution_of(name, seed):
    rng = np.random.default_rng(seed)
    likelihood = likelihoods.get(name)
    parameters = {
        p.name: rng.uniform(1.1, 2.0, size=(10, 1)).astype("float32")
        for p in likelihood.parameters
    }
    prediction = rng.normal(size=(10, 1)).astype("float32")
    return likelihood(prediction, **parameters)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="about JAX")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["robust_rho", "student_t"])
def test_a_second_call_compiles_nothing(name, method):
    import jax

    with compilations() as found:
        METHODS[method](distribution_of(name, 0))
        first = len(found)
        METHODS[method](distribution_of(name, 1))
        assert len(found) == first
        # The listener does hear.
        jax.jit(lambda x: x + first)(1.0)
        assert len(found) == first + 1


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch does not compile it"
)
def test_a_second_quantile_runs_no_python():
    calls = []

    class Counted(likelihoods.LocationScale):
        parameters = (likelihoods.Parameter("scale", Exp()),)

        def standard_nll(self, z):
            calls.append(1)
            return ops.abs(z) + float(np.log(2))

    first = Counted(np.zeros((3, 1), "float32")).quantile(0.1)
    traced = len(calls)
    assert traced > 0
    second = Counted(np.ones((3, 1), "float32"), scale=2.0).quantile(0.2)
    assert len(calls) == traced
    for found, expected in (
        (first, np.log(0.2)),
        (second, 1 + 2 * np.log(0.4)),
    ):
        np.testing.assert_allclose(
            ops.convert_to_numpy(found), expected, rtol=1e-5
        )


def test_a_redefined_class_is_not_taken_for_the_old_one():
    def define(power):
        class Redefined(likelihoods.LocationScale):
            parameters = (likelihoods.Parameter("scale", Exp()),)

            def standard_nll(self, z):
                return power * ops.abs(z) + float(np.log(2 / power))

        return Redefined(np.zeros((3, 1), "float32"))

    for power in (1.0, 2.0):
        found = ops.convert_to_numpy(define(power).quantile(0.1))
        np.testing.assert_allclose(found, np.log(0.2) / power, rtol=1e-5)


def test_the_cdf_has_a_gradient_by_the_parameters():
    z = np.array([[-1.0], [0.5]], "float32")

    def cdf(prediction, df):
        return likelihoods.StudentT(prediction, df=df).cdf(z)

    prediction, df = np.zeros_like(z), np.full_like(z, 3.0)
    by_prediction, by_df = gradients(cdf, prediction, df)
    density = np.exp(
        -ops.convert_to_numpy(
            likelihoods.StudentT(ops.convert_to_tensor(prediction), df=3.0).nll(
                z
            )
        )
    )
    np.testing.assert_allclose(by_prediction, -density, rtol=1e-4)
    assert np.all(np.isfinite(by_df)) and np.all(by_df != 0)
