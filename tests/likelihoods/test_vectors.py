"""Parameters that are a vector per outcome, in heads, losses and tables."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import constraints, likelihoods
from tests import contracts
from tests.contracts import FEATURES, as_numpy

SPREAD = (-1.0, 0.0, 0.5, 2.0)


class Comb(likelihoods.Likelihood):
    """Squared distances to teeth around the prediction, each weighted."""

    parameters = (
        likelihoods.Parameter(
            "teeth", constraints.Identity(), initial=SPREAD, size=4
        ),
        likelihoods.Parameter("pull", constraints.Exp(), size=lambda units: 4),
        likelihoods.Parameter("scale", constraints.Exp()),
    )

    def nll(self, y):
        at, pull = (
            ops.reshape(v, (*ops.shape(v)[:-1], -1, 4))
            for v in (self.teeth, self.pull)
        )
        distance = (y - self.prediction)[..., None] - at
        squares = ops.sum(pull * ops.square(distance), axis=-1)
        return squares / self.scale + ops.log(self.scale)


@pytest.mark.parametrize("conditioning", ["predicted", "global"])
@pytest.mark.parametrize(
    "dimension, last", [("scalar", 4), ("channel", 8), ("element", 8)]
)
def test_a_head_gives_vectors(dimension, last, conditioning, rng):
    options = {"dimension": dimension, "conditioning": conditioning}
    features = rng.normal(size=(4, 6, FEATURES)).astype("float32")
    head = kl.layers.LikelihoodHead(Comb, 2, **options)
    contracts.symbolic_and_eager_shapes_agree(head, features)
    contracts.config_keeps_outputs(head, features)
    prediction, teeth, pull, scale = as_numpy(head(features))
    assert teeth.shape[-1] == pull.shape[-1] == last
    np.testing.assert_allclose(teeth[0, 0], np.resize(SPREAD, last), atol=1e-6)
    np.testing.assert_allclose(pull, 1)
    nll = Comb(prediction, teeth=teeth, pull=pull, scale=scale).nll(prediction)
    np.testing.assert_allclose(as_numpy(nll), 5.25, rtol=1e-5)


def test_a_vector_may_be_given_as_numbers():
    y = np.ones((3, 2), "float32")
    alone = as_numpy(Comb(y).nll(y))
    np.testing.assert_allclose(alone, 5.25)
    for given in (SPREAD, list(SPREAD), np.float32(SPREAD)[None]):
        np.testing.assert_allclose(as_numpy(Comb(y, teeth=given).nll(y)), alone)
    np.testing.assert_allclose(as_numpy(Comb(y, teeth=-3).nll(y)), 36)
    with pytest.raises(ValueError, match=r"must be of shape \(4,\). Received"):
        Comb(y, teeth=(1.0, 2.0))
    with pytest.raises(ValueError, match=r"as \(1, 4\). Received"):
        Comb(y, teeth=np.ones((3, 2), "float32"))
    with pytest.raises(ValueError, match="must be finite. Received: inf"):
        Comb(y, teeth=float("inf"))


def test_a_loss_learns_vectors_and_saves_them(rng, tmp_path):
    x = rng.normal(size=(8, 2)).astype("float32")
    y = x[:, :1]
    rows = kl.DataParameter(num_examples=8)
    model = contracts.small_model(keras.layers.Dense(1), x)
    loss = kl.losses.LikelihoodLoss(Comb, teeth=rows, scale=2.0)
    model.compile("sgd", loss=loss)
    np.testing.assert_allclose(rows.values(), np.resize(SPREAD, (8, 4)))
    model.fit(x, kl.indexed(y), epochs=2, verbose=0)
    assert rows.values().shape == (8, 4)
    assert not np.allclose(rows.values(), np.resize(SPREAD, (8, 4)))
    pull = model.loss.parameter_values()["pull"]
    assert pull.shape == (4,) and np.all(pull != 1)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(again.loss.parameter_values()["pull"], pull)
    found = again.predict_distribution(x, verbose=0)
    np.testing.assert_allclose(
        as_numpy(found.nll(y)),
        as_numpy(model.predict_distribution(x, verbose=0).nll(y)),
        rtol=1e-6,
    )


def test_a_fixed_vector_survives_its_config():
    loss = kl.losses.LikelihoodLoss(Comb, teeth=[0, 1, 2, 3], pull=2, scale=1)
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(loss)
    )
    assert again.parameter_values()["teeth"] == (0.0, 1.0, 2.0, 3.0)
    y = np.zeros((2, 1), "float32")
    np.testing.assert_allclose(as_numpy(again(y, y)), 28)
