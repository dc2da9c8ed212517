"""What the page of a fitted table says."""

import types

import numpy as np
import pytest

from keras_likelihood.tabular import report

pytestmark = pytest.mark.one_backend
U = np.linspace(0.005, 0.995, 400)


@pytest.mark.parametrize(
    "cdf, verdict, words",
    [
        (U, "good", "differ by 0."),
        (0.5 + (U - 0.5) / 2, "bad", "The distributions are too wide."),
        (0.5 + (U - 0.5) / abs(U - 0.5) / 2.01, "bad", "are too narrow."),
    ],
)
def test_a_gap_of_coverage_is_said_with_what_to_do(cdf, verdict, words):
    held = {"cdf": cdf, "y": np.zeros(400)}
    part = report._calibration(types.SimpleNamespace(held_out_=held))
    assert part.verdict == verdict and words in part.summary
    assert ("--likelihood" in (part.command or "")) == (verdict == "bad")


def test_the_same_gap_is_no_finding_among_ten_rows():
    held = {"cdf": 0.5 + (U[::40] - 0.5) / 2, "y": np.zeros(10)}
    part = report._calibration(types.SimpleNamespace(held_out_=held))
    assert part.verdict == "good"


def test_extreme_probabilities_are_readable():
    shares = 3.06986e-16, 0.25, 1 - 1e-9
    assert [report._percent(p) for p in shares] == [
        "< 0.1%",
        "25.0%",
        "> 99.9%",
    ]
