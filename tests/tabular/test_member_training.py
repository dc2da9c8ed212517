"""Training of several networks on one table."""

import keras
import numpy as np
from scipy import stats

import keras_likelihood as kl
from keras_likelihood.ensembles.member_networks import MemberNetworks
from keras_likelihood.tabular import last_layer, training  # noqa: E402


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
        trained.assign(trained._state[1])
        rounds.append(held_out_nll())

    assert not trained.run(on_round)[1]
    best = np.min(rounds, axis=0)
    np.testing.assert_allclose(held_out_nll(), best, rtol=1e-4)
    # The best round is not the last one by chance.
    assert np.all(best < rounds[-1])


def test_losses_that_jump_have_not_converged():
    settings = training.Settings(8000)
    # First only the best improves, then only the mean.
    for losses in ([1.0, 0.9, 0.9, 0.8, 2.0, 0.9], [1.0, 0.6, 1.0, *[0.7] * 3]):
        assert not training._has_converged(losses, settings)
    level = [0.8, 0.81, 0.8, 0.82, 0.8, 0.83]
    assert training._has_converged(level, settings)


def test_a_table_that_needs_more_epochs_says_so(monkeypatch):
    monkeypatch.setattr(training.Training, "run", lambda *_: ([], False))
    x = np.linspace(0, 1, 40)[:, None]
    found = [
        kl.tabular.Regressor(members=2, epochs=epochs).fit(x, x[:, 0])
        for epochs in (None, 1)
    ]
    words = "The networks still improved at the end of the training. More "
    words += "`epochs` than 2,016 may help"
    assert [words in model.summary() for model in found] == [True, False]


def test_the_last_layer_is_refitted_to_a_smooth_function():
    """Few steps do not reach a smooth function, and one refit does."""
    random = np.random.default_rng(0)
    x = random.normal(size=(240, 3)).astype("float32")
    y = (
        x @ np.array([1.0, -2.0, 0.5]) + 0.02 * random.normal(size=240)
    ).astype("float32")
    networks = MemberNetworks("normal", 2, hidden=(32, 32))
    networks.build(x.shape)
    networks.adapt(y)
    rows = np.arange(240)
    trained, held_out = (
        [rows[:120], rows[120:]],
        np.stack([rows[120:], rows[:120]]),
    )

    def errors():
        prediction = keras.ops.convert_to_numpy(networks(x)[0])
        return [
            np.mean((prediction - y[:, None])[held_out[member], member] ** 2)
            for member in range(2)
        ]

    before = errors()
    loss = training.loss_of(networks.likelihood)
    data = x, y, np.ones(240, "float32")
    last_layer.refit_last_layer(networks, loss, data, trained, held_out)
    assert np.all(np.array(errors()) < 0.1 * np.array(before))
    # Random targets: no change improves the held-out likelihood.
    networks.adapt(y)
    before = keras.ops.convert_to_numpy(networks(x)[0])
    data = x, random.permutation(y), np.ones(240, "float32")
    networks.set_last_layer(*(0.0 * v for v in networks.dense_layers()[-1]))
    last_layer.refit_last_layer(networks, loss, data, trained, held_out)
    prediction = keras.ops.convert_to_numpy(networks(x)[0])
    assert np.std(prediction) < 0.5 * np.std(y)


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
