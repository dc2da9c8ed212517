"""The Gaussian process that predicts beside the networks."""

import subprocess
import sys

import numpy as np
import pytest
from keras.ops import convert_to_numpy as as_numpy
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

import keras_likelihood as kl
from keras_likelihood.tables.columns import learn_column
from keras_likelihood.tables.table_features import TableFeatures
from keras_likelihood.tabular.fitted_process import fit_process


def smooth(rows=160, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (rows, 3))
    y = 40 + 5 * np.sin(x[:, 0]) + x[:, 1] ** 2 + 0.2 * rng.normal(size=rows)
    return x, y


def test_process_is_that_of_scikit_learn():
    x, y = smooth()
    rng, fold = np.random.default_rng(0), np.arange(len(y)) % 4
    columns = [learn_column(str(i), v) for i, v in enumerate(x.T)]
    layer = TableFeatures.learn(columns, x.astype("float32"), rng)
    inputs = as_numpy(layer(x.astype("float32")))
    process, held_out = fit_process(
        layer, inputs, y, np.ones(len(y)), fold, rng
    )
    lengths = 1 / as_numpy(process.inverse_lengths).astype("float64")
    centre, spread, signal, noise, scale, df = as_numpy(process.units)
    kernel = signal * kernels.Matern(lengths, nu=2.5)
    kernel += kernels.WhiteKernel(noise)
    peer = GaussianProcessRegressor(kernel, optimizer=None)
    new, everything = fold == 1, np.ones(len(y), bool)
    everywhere = as_numpy(process(inputs))
    for found, rows, used in (
        (held_out, new, ~new),
        (everywhere, everything, everything),
    ):
        peer.fit(inputs[used, :3], (y[used] - centre) / spread)
        mean, deviation = peer.predict(inputs[rows, :3], return_std=True)
        expected = np.stack(
            [centre + spread * mean, 0 * mean + df, scale * spread * deviation]
        )
        np.testing.assert_allclose(found[rows], expected.T, rtol=3e-3)


def test_smooth_table_is_left_to_the_process(tmp_path):
    model = kl.tabular.Regressor(members=2, epochs=1, random_state=0)
    model.fit(*smooth())
    x, y = smooth(seed=1)
    law = type(model.predict_distribution(x).distribution)
    assert (law.components, law.last) == (3, 0.95)
    assert np.mean((model.predict(x) - y) ** 2) ** 0.5 < 0.3
    lower, upper = model.interval(x)
    assert 0.8 < np.mean((lower <= y) & (y <= upper)) <= 1
    model.save(tmp_path / "a.keras")
    again = kl.tabular.load(tmp_path / "a.keras")
    np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-6)
    # A process that does not import `tabular` reads the file, too.
    script = "import sys, keras_likelihood, keras.saving as saving; "
    script += "saving.load_model(sys.argv[1])"
    command = [sys.executable, "-c", script, str(tmp_path / "a.keras")]
    subprocess.run(command, check=True)


def test_weight_of_the_last_member():
    kind = kl.ensembles.EnsembleDistribution("normal", components=3, last=0.8)
    assert kl.likelihoods.get(kind.name()) is kind
    values = np.array([[0.0, 1.0, 5.0]], "float32")
    found = kind(values[:, :1], member=values, scale=1 + values).as_numpy()
    weights, laws = [0.1, 0.1, 0.8], stats.norm(values[0], 1 + values[0])
    y = np.array([[2.0]], "float32")
    assert found.nll(y)[0, 0] == pytest.approx(
        -np.log(weights @ laws.pdf(2.0)), rel=1e-5
    )
    assert found.cdf(y)[0, 0] == pytest.approx(weights @ laws.cdf(2.0), 1e-5)
    assert found.mean()[0, 0] == pytest.approx(4.1, rel=1e-5)
    with pytest.raises(ValueError, match=r"`last` must be .* Received: 1"):
        kl.ensembles.EnsembleDistribution("normal", last=1)
