"""All backends agree with one record, and with each other."""

import json

import numpy as np
import pytest

from tests import same_numbers

RECORDED = json.loads(same_numbers.RECORD.read_text())


@pytest.mark.parametrize("name", same_numbers.NAMES)
def test_density(name):
    found = same_numbers.density(name)
    assert set(found) == set(RECORDED[name]) - {"training"}
    for key, value in found.items():
        np.testing.assert_allclose(
            value, RECORDED[name][key], rtol=2e-5, atol=2e-6, err_msg=key
        )


@pytest.mark.few(3)
@pytest.mark.parametrize("name", same_numbers.NAMES)
def test_training(name):
    np.testing.assert_allclose(
        same_numbers.training(name), RECORDED[name]["training"], rtol=1e-4
    )


def test_members():
    """Weights of several networks are updated as on the other backends."""
    pytest.importorskip("sklearn")
    np.testing.assert_allclose(
        same_numbers.members(), RECORDED["members"], rtol=1e-4
    )
