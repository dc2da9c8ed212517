"""Likelihood classes made from arguments: names, identity, files."""

import pickle

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.likelihoods import parametrized
from tests.contracts import as_numpy


class Shifted(likelihoods.Wrapper):
    """Targets that are recorded too high by `by`."""

    @classmethod
    def define(cls, likelihood, *, by, words=None):
        inner = likelihoods.get(likelihood)
        return {
            "likelihood": inner,
            "by": float(by),
            "words": words,
            "parameters": inner.parameters,
            "event_rank": inner.event_rank,
        }

    def nll(self, y):
        return self.inner.nll(y - self.by)


@pytest.fixture
def fresh_process():
    """Forgets the classes created so far, as in a new process."""
    before = dict(parametrized._MADE)
    yield parametrized._MADE.clear
    parametrized._MADE.clear()
    parametrized._MADE.update(before)


def test_the_same_arguments_give_the_same_class():
    made = Shifted(likelihoods.Normal, by=2)
    assert made is Shifted("normal", by=2.0)
    assert made is likelihoods.get(made)
    assert made is not Shifted("normal", by=3)
    assert issubclass(made, Shifted)
    assert made.__name__ == "Shifted(normal,by=2.0)"
    assert made.parameters == likelihoods.Normal.parameters


@pytest.mark.parametrize(
    "make, name",
    [
        (lambda: Shifted("normal", by=2), "shifted(normal,by=2.0)"),
        (
            lambda: Shifted(Shifted("laplace", by=-1), by=1e-30),
            "shifted(shifted(laplace,by=-1.0),by=1e-30)",
        ),
        (
            lambda: Shifted("normal", by=1, words=("a", 2, (0.5, True))),
            "shifted(normal,by=1.0,words=[a,2,[0.5,True]])",
        ),
    ],
)
def test_a_name_says_how_it_was_made(make, name, fresh_process):
    made = make()
    assert made.name() == name
    assert likelihoods.get(name) is made
    assert pickle.loads(pickle.dumps(made)) is made
    assert pickle.loads(pickle.dumps(Shifted)) is Shifted
    fresh_process()
    again = likelihoods.get(name.replace(",", ", "))
    assert again is not made
    assert again.name() == name
    assert again.arguments[1:] == made.arguments[1:]


def test_methods_see_the_wrapped_distribution():
    y = np.array([[1.0, 5.0]], "float32")
    made = Shifted("laplace", by=2)(y, scale=0.5)
    np.testing.assert_allclose(
        as_numpy(made.nll(y)), as_numpy(made.inner.nll(y - 2.0))
    )
    narrow = Shifted("laplace", by=2)(ops.cast(y, "bfloat16"))
    assert keras.backend.standardize_dtype(narrow.nll(y).dtype) == "bfloat16"


def test_a_users_likelihood_can_be_wrapped_and_defined_again():
    def define():
        class Mine(likelihoods.Normal):
            pass

        return Mine

    first = Shifted(define(), by=1)
    assert likelihoods.get("shifted(mine,by=1.0)") is first
    second = Shifted(define(), by=1)
    assert second is not first
    assert likelihoods.get("shifted(mine,by=1.0)") is second


def test_a_made_class_can_be_subclassed():
    class Late(Shifted("normal", by=1)):
        pass

    assert Late.name() == "late"
    assert likelihoods.get("late") is Late
    assert Late(np.zeros((1, 1), "float32")).by == 1.0


def test_files_find_the_class_again(rng, tmp_path, fresh_process):
    x = rng.normal(size=(8, 2)).astype("float32")
    made = Shifted("normal", by=2)
    inputs = keras.Input((2,))
    head = kl.layers.LikelihoodHead(made, 1)
    model = kl.LikelihoodModel(inputs, head(inputs))
    model.compile("sgd", loss=kl.losses.LikelihoodLoss(made))
    model.train_on_batch(x, x[:, :1])
    expected = model.evaluate(x, x[:, :1], verbose=0)
    model.save(tmp_path / "m.keras")
    fresh_process()
    again = keras.models.load_model(tmp_path / "m.keras")
    assert again.loss.likelihood.name() == "shifted(normal,by=2.0)"
    found = again.evaluate(x, x[:, :1], verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "identifier, message",
    [
        (Shifted, r"needs the arguments \['likelihood'.*'shifted'"),
        ("shifted", "needs the arguments.*Received: 'shifted'"),
        ("shifted(normal,by=1", "Received: 'shifted\\(normal,by=1'"),
        ("shifted(normal)+(1)", "one pair of brackets.*Received"),
        ("shifted(normal,by=[1)", "does not match.*Received"),
        ("shifted(normal)", "Cannot create Shifted.*'by'.*Received"),
        ("shifted(normal,to=1)", "Cannot create Shifted.*Received"),
        ("shifted(gauss,by=1)", "Received: 'gauss'"),
        ("normal(by=1)", r"no arguments. Received: 'normal\(by=1\)'"),
        ("unheard(normal)", "must be a `Likelihood`.*Received"),
        (3, "must be a `Likelihood`.*Received: 3"),
    ],
)
def test_names_that_make_nothing_are_refused(identifier, message):
    with pytest.raises(ValueError, match=message):
        likelihoods.get(identifier)
