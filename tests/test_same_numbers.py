"""All backends agree with one record, and with each other.

`python -m tests.test_same_numbers` records one seeded case per likelihood.
"""

import json
import pathlib

import keras
import numpy as np
import pytest
from keras import ops

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.ensembles.member_networks import MemberNetworks
from tests.contracts import targets_for

RECORD = pathlib.Path(__file__).parent / "recorded" / "same_numbers.json"
RECORDED = json.loads(RECORD.read_text()) if RECORD.exists() else {}
NAMES = ("bernoulli", "laplace", "normal", "robust_rho", "softmax", "student_t")


def density(name):
    """NLL, cdf and quantiles on a fixed grid, as nested lists."""
    rng = np.random.default_rng(7)
    likelihood = likelihoods.get(name)
    prediction = rng.normal(size=(5, 3)).astype("float32")
    width = 1 if likelihood.event_rank else 3
    parameters = {
        p.name: rng.uniform(0.4, 2.0, size=(5, width)).astype("float32")
        for p in likelihood.parameters
    }
    y = targets_for(likelihood, prediction.shape, rng)
    distribution = likelihood(prediction, **parameters)
    found = {"nll": distribution.nll(y)}
    if isinstance(distribution, likelihoods.LocationScale):
        found["cdf"] = distribution.cdf(y)
        found["quantile"] = distribution.quantile(0.9)
    return {k: ops.convert_to_numpy(v).tolist() for k, v in found.items()}


def training(name):
    """Losses of a few steps from fixed weights, with a predicting head."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(12, 4)).astype("float32")
    y = targets_for(likelihoods.get(name), (12, 3), rng)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(6, activation="tanh")(inputs)
    model = kl.LikelihoodModel(
        inputs, kl.layers.LikelihoodHead(name, 3)(hidden)
    )
    for weight in model.trainable_weights:
        weight.assign(0.3 * rng.normal(size=weight.shape))
    model.compile(
        keras.optimizers.SGD(0.05), loss=kl.losses.LikelihoodLoss(name)
    )
    history = model.fit(
        x, y, batch_size=4, epochs=3, shuffle=False, verbose=0
    ).history
    return history["loss"]


def members():
    """Losses of the networks of a table, and their weights at the end."""
    from keras_likelihood.tabular.training import Settings, Training, deal_rows

    rng = np.random.default_rng(9)
    x = rng.normal(size=(40, 2)).astype("float32")
    networks = MemberNetworks("student_t", 2, hidden=(5, 5))
    networks.build(x.shape)
    y, weight, out = x[:, 0] + 3, np.ones(40), deal_rows(40, 2, rng)
    settings = Settings(40, epochs=40)
    training = Training(networks, x, y, weight, out, settings, rng)
    losses, _ = training.run(print)
    sizes = [
        float(np.linalg.norm(ops.convert_to_numpy(weight)))
        for weight in networks.trainable_weights
    ]
    return losses + sizes


@pytest.mark.parametrize("name", NAMES)
def test_density(name):
    found = density(name)
    assert set(found) == set(RECORDED[name]) - {"training"}
    for key, value in found.items():
        np.testing.assert_allclose(
            value, RECORDED[name][key], rtol=2e-5, atol=2e-6, err_msg=key
        )


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_training(name):
    np.testing.assert_allclose(
        training(name), RECORDED[name]["training"], rtol=1e-4
    )


def test_members():
    """Weights of several networks are updated as on the other backends."""
    np.testing.assert_allclose(members(), RECORDED["members"], rtol=1e-4)


def record():
    RECORD.parent.mkdir(exist_ok=True)
    numbers = {n: {**density(n), "training": training(n)} for n in NAMES}
    numbers["members"] = members()
    RECORD.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    record()
