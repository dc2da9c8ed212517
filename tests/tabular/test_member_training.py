"""Training of several networks on one table."""

import keras
import numpy as np
import pytest
from scipy import stats

from keras_likelihood.ensembles.member_networks import MemberNetworks

pytest.importorskip("sklearn")

from keras_likelihood.tabular import training  # noqa: E402


def test_a_member_keeps_its_best_round_on_rows_it_did_not_train_on():
    """Random targets: a better fit to training rows is worse on others."""
    random = np.random.default_rng(0)
    x = random.normal(size=(48, 2)).astype("float32")
    y = random.normal(size=48).astype("float32")
    out = training.deal_rows(len(y), 2, random)
    settings = training.Settings(len(y), 40, tolerance=-np.inf)
    settings.learning_rate = 0.01
    networks = MemberNetworks("normal", 2, hidden=(64, 64))
    networks.build(x.shape)
    networks.adapt(y)
    weight = np.ones(len(y))
    trained = training.Training(networks, x, y, weight, out, settings, random)

    def held_out_nll():
        found = trained.held_out(x, y, out, lambda law, y: law.values())[0]
        prediction, scale = found["prediction"][:, 0], found["scale"][:, 0]
        nll = stats.norm.logpdf(y, prediction, scale)
        return [-nll[out[:, 0] == member].mean() for member in range(2)]

    rounds = []

    def on_round(done, total):
        values = trained._state[1]
        for variable, value in zip(trained._weights, values, strict=True):
            variable.assign(value)
        rounds.append(held_out_nll())

    trained.run(on_round)
    best = np.min(rounds, axis=0)
    np.testing.assert_allclose(held_out_nll(), best, rtol=1e-4)
    # The best round is not the last one by chance.
    assert np.all(best < rounds[-1])


def test_networks_start_in_the_units_of_the_targets():
    networks = MemberNetworks("student_t", 2, hidden=(4,))
    x = np.zeros((1, 3), "float32")
    before = [keras.ops.convert_to_numpy(v) for v in networks(x)]
    y = np.array([-300.0, 100.0, 500.0])
    networks.adapt(y)
    prediction, df, scale = (keras.ops.convert_to_numpy(v) for v in networks(x))
    spread = float(networks.spread)
    assert 100 < spread < 1000
    np.testing.assert_allclose(prediction, 100 + spread * before[0], rtol=1e-5)
    np.testing.assert_allclose(df, before[1], rtol=1e-6)
    np.testing.assert_allclose(scale, spread * before[2], rtol=1e-5)
