"""Names of likelihoods, and which of them are reserved."""

import numpy as np
import pytest
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.constraints import Exp


def test_our_names_are_ours():
    with pytest.raises(ValueError, match="'normal'.*MyNormal.*Received"):

        class Normal(likelihoods.LocationScale):
            parameters = (likelihoods.Parameter("scale", Exp()),)

    with pytest.raises(ValueError, match="Received: .*'location_scale'"):

        class LocationScale(likelihoods.Likelihood):
            pass

    assert likelihoods.get("normal") is likelihoods.Normal
    assert likelihoods.get("location_scale") is likelihoods.LocationScale


def test_a_name_may_be_chosen():
    class StudentT(likelihoods.StudentT):
        @classmethod
        def name(cls):
            return "my_student_t"

    assert likelihoods.get("my_student_t") is StudentT
    assert likelihoods.get("student_t") is likelihoods.StudentT
    low, _ = StudentT(np.zeros((1, 1), "float32")).interval()
    assert np.isfinite(ops.convert_to_numpy(low))


def test_ones_own_class_may_be_defined_again():
    def define(offset):
        class NamedTwice(likelihoods.Normal):
            shift = offset

        return NamedTwice

    first, second = define(1), define(2)
    assert first is not second
    assert likelihoods.get("named_twice") is second
