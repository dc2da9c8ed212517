"""Training of several networks on one table."""

import keras
import numpy as np
import pytest

from keras_likelihood.ensembles.member_networks import MemberNetworks
from keras_likelihood.tables import columns
from keras_likelihood.tables.table_features import TableFeatures

pytest.importorskip("sklearn")

from keras_likelihood.tabular import training  # noqa: E402


def test_a_member_keeps_its_best_round_on_rows_it_did_not_train_on():
    """Random targets: a better fit to training rows is worse on others."""
    random = np.random.default_rng(0)
    x = random.normal(size=(48, 2)).astype("float32")
    y = random.normal(size=48).astype("float32")
    out = training.deal_rows(len(y), 2, random)
    budget = training.Budget(len(y), 12)
    budget.learning_rate = 0.01
    learned = [columns.learn_column(str(i), x[:, i]) for i in range(2)]
    features = TableFeatures.learn(learned, x, random)
    networks = MemberNetworks("normal", 2, hidden=(64, 64))
    model = training.build(features, networks, budget)
    networks.adapt(y)
    found = []

    def held_out_nll(*_):
        output = training.predict_rows(model, x)
        nll = keras.ops.convert_to_numpy(
            model.loss.distribution(output).nll(np.stack([y, y], axis=1))
        )
        found.append(np.sum(nll * (out == [0, 1]), axis=0))

    weight = np.ones(len(y))
    training.train(
        model, x, y, weight, out, budget, random, on_round=held_out_nll
    )
    held_out_nll()
    *rounds, last = np.array(found)
    assert len(rounds) == 12
    np.testing.assert_allclose(last, np.min(rounds, axis=0), rtol=1e-4)
    # The best round is not the last one by chance.
    assert np.all(last < rounds[-1])


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
