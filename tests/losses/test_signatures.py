"""Each loss shows its arguments wherever Python shows them."""

import dataclasses
import inspect
import pydoc

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from tests.contracts import as_numpy

LOSSES = {name: getattr(kl.losses, name) for name in kl.losses.__all__}
# Their parameters are those of the likelihood that they are given.
OF_ANY_LIKELIHOOD = ("CRPS", "LikelihoodLoss", "LocationScaleLoss")
NEEDED = {"classes": 3, "levels": (0.1, 0.9)}
NEEDED |= {"memory": kl.DataParameter(3), "loss": "mse"}


def undocumented(cls):
    arguments = inspect.signature(cls).parameters
    # The arguments of a base class are described there.
    docs = [vars(base).get("__doc__") or "" for base in cls.__mro__]
    described = "".join(doc.partition("Args:")[2] for doc in docs)
    hidden = [n for n, p in arguments.items() if p.kind is p.VAR_KEYWORD]
    if cls.__name__ in OF_ANY_LIKELIHOOD:
        hidden = []
    return hidden + [n for n in arguments if n not in described]


@pytest.mark.one_backend
@pytest.mark.parametrize("name", LOSSES)
def test_every_argument_is_shown_and_described(name):
    assert not undocumented(LOSSES[name])
    shown = pydoc.plain(pydoc.render_doc(LOSSES[name]))
    assert all(
        f"{n}: " in shown for n in inspect.signature(LOSSES[name]).parameters
    )


@pytest.mark.one_backend
def test_hidden_arguments_are_noticed():
    class Hides(kl.losses.NormalLoss):
        """A loss.

        Args:
            **options: other arguments.
        """

        def __init__(self, **options):
            super().__init__(**options)

    @dataclasses.dataclass
    class Omits(kl.losses.NormalLoss):
        """A loss."""

        new: float = 0.0

    assert undocumented(Hides) == ["options"]
    assert undocumented(Omits) == ["new"]


@pytest.mark.one_backend
def test_arguments_of_the_normal_loss():
    assert set(inspect.signature(kl.losses.NormalLoss).parameters) == {
        *("scale", "beta", "dimension", "missing", "reduction", "name"),
        "dtype",
    }


@pytest.mark.parametrize("name", sorted(set(LOSSES) - set(OF_ANY_LIKELIHOOD)))
def test_defaults_are_accepted(name):
    arguments = inspect.signature(LOSSES[name]).parameters
    LOSSES[name](**{n: NEEDED.get(n, p.default) for n, p in arguments.items()})


def test_a_subclass_may_add_an_argument(rng):
    @keras.saving.register_keras_serializable("tests")
    @dataclasses.dataclass(eq=False, repr=False)
    class Shifted(kl.losses.NormalLoss):
        _: dataclasses.KW_ONLY
        shift: float = 0.0

        def elementwise(self, distribution, y_true):
            return super().elementwise(distribution, y_true - self.shift)

    loss = Shifted(0.5, shift=2.0, reduction="sum")
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(loss)
    )
    y, p = rng.normal(size=(2, 6, 1)).astype("float32")
    expected = kl.losses.NormalLoss(0.5, reduction="sum")(y - 2, p)
    for one in (loss, again):
        np.testing.assert_allclose(
            as_numpy(one(y, p)), as_numpy(expected), rtol=1e-5
        )


@pytest.mark.one_backend
def test_parameters_of_another_likelihood_of_the_family_are_an_error():
    with pytest.raises(ValueError, match="Received: 'factor'"):
        kl.losses.MultivariateNormalLoss("full", factor=1.0)
    with pytest.raises(ValueError, match="Received: 'dispersion'"):
        kl.losses.ZeroInflatedLoss("poisson", dispersion=1.0)
