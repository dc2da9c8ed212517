"""Quadrature is compiled for few shapes, not on every call."""

import contextlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.constraints import Exp

METHODS = {
    "cdf": lambda d: d.cdf(np.ones((10, 1), "float32")),
    "quantile": lambda d: d.quantile(0.3),
    "interval": lambda d: d.interval(0.9),
    "sample": lambda d: d.sample(seed=1),
    "information": lambda d: d.information(),
}


@contextlib.contextmanager
def compilations():
    """Yields a list with an entry for every program that JAX compiles."""
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


def distribution_of(name, seed, rows=10):
    rng = np.random.default_rng(seed)
    likelihood = likelihoods.get(name)
    parameters = {
        p.name: rng.uniform(1.1, 2.0, size=(rows, 1)).astype("float32")
        for p in likelihood.parameters
    }
    prediction = rng.normal(size=(rows, 1)).astype("float32")
    return likelihood(prediction, **parameters)


def counted_laplace():
    """A likelihood, and a list with an entry for each time it is traced."""
    calls: list = []

    class Counted(likelihoods.LocationScale):
        parameters = (likelihoods.Parameter("scale", Exp()),)

        def standard_nll(self, z):
            calls.append(1)
            return ops.abs(z) + float(np.log(2))

    return Counted, calls


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
        # The listener works.
        jax.jit(lambda x: x + first)(1.0)
        assert len(found) == first + 1


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


ROWS = (1, 2, 7, 255, 256)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["student_t", "beta"])
def test_rows_do_not_depend_on_their_number(name):
    whole = distribution_of(name, 0, 256).as_numpy()
    y = np.full((256, 1), 0.7, "float32")
    levels = [0.1, 0.5, 0.9]
    quantiles, cdf = whole.quantile(levels), whole.cdf(y)
    upper, mean = whole.interval(0.9)[1], whole.mean()
    for rows in ROWS:
        part = whole.map_values(lambda x, rows=rows: x[:rows])
        for found, expected in (
            (part.quantile(levels), quantiles[:, :rows]),
            (part.interval(0.9)[1], upper[:rows]),
            (part.mean(), mean[:rows]),
            (part.cdf(y[:rows]), cdf[:rows]),
            (part.cdf(y[:rows].tolist()), cdf[:rows]),
        ):
            assert np.shape(found) == np.shape(expected)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch does not compile it"
)
def test_new_numbers_of_rows_compile_nothing():
    likelihood, calls = counted_laplace()

    def call(rows):
        zeros = np.zeros((rows, 1), "float32")
        found = likelihood(zeros, scale=2.0)
        return [found.interval(0.8)[0], found.cdf(zeros), found.variance()]

    call(5)
    traced = len(calls)
    assert traced > 0
    for rows in ROWS:
        lower, half, variance = call(rows)
        assert lower.shape == half.shape == (rows, 1)
        np.testing.assert_allclose(lower, 2 * np.log(0.2), rtol=1e-5)
        np.testing.assert_allclose(half, 0.5, rtol=1e-5)
        np.testing.assert_allclose(np.unique(variance), 8, rtol=1e-4)
    assert len(calls) == traced


def test_one_row_of_a_mixture_with_two_outputs(rng):
    mixture = likelihoods.get("mixture(normal)")
    shapes = {
        p.name: mixture.shape_of(p.name, (3, 2), "element")
        for p in mixture.parameters
    }
    parameters = {
        k: rng.uniform(1, 2, (3, *v)).astype("float32")
        for k, v in shapes.items()
    }
    found = mixture(np.zeros((3, 2), "float32"), **parameters)
    np.testing.assert_allclose(
        found[1].quantile(0.2), found.quantile(0.2)[1], rtol=1e-5
    )


def test_errors_name_the_rows_that_were_given():
    found = distribution_of("student_t", 0)
    for method in (found.cdf, found.log_survival):
        with pytest.raises(ValueError, match=r"\(10, 1\). Received: \(3, 1\)"):
            method(np.ones((3, 1), "float32"))


def test_a_row_without_a_number_does_not_change_the_others():
    scale = np.array([[1.0], [2.0], [np.nan]], "float32")
    zeros = np.zeros_like(scale)
    lower, upper = likelihoods.StudentT(
        zeros, scale=scale, df=scale + 3
    ).interval(0.9)
    assert np.isnan([lower[2], upper[2]]).all()
    np.testing.assert_allclose(lower[:2], -upper[:2], rtol=1e-5)
