"""Comparison of models."""

import keras
import numpy as np
import pytest
from scipy import stats

import keras_likelihood as kl
from keras_likelihood.comparison import crps
from keras_likelihood.conformal import ConformalIntervals
from keras_likelihood.recalibration import regression
from tests import kinds


class Fixed(keras.Layer):
    """The same prediction and scale for every input."""

    def __init__(self, location, scale, **kwargs):
        super().__init__(**kwargs)
        self.location, self.scale = location, scale

    def call(self, x):
        ones = keras.ops.ones_like(x[:, :1])
        return self.location * ones, self.scale * ones


def model_of(scale, loss, location=1.0):
    inputs = keras.Input((2,))
    model = kl.LikelihoodModel(inputs, Fixed(location, scale)(inputs))
    model.compile("sgd", loss=loss)
    return model


@pytest.fixture
def held_out(rng):
    x = rng.normal(size=(192, 2)).astype("float32")
    return x, 1 + 2 * rng.normal(size=(192, 1))


def test_fitted_models_against_scipy(held_out):
    x, y = held_out
    table = kl.compare(
        {
            "narrow": model_of(0.5, kl.losses.NormalLoss()),
            "right": model_of(2.0, kl.losses.NormalLoss()),
            "laplace": model_of(1.5, kl.losses.LaplaceLoss()),
        },
        x,
        y,
    )
    assert [row.name for row in table] == ["right", "laplace", "narrow"]
    for row, law in (
        (table.row("right"), stats.norm(1, 2)),
        (table.row("laplace"), stats.laplace(1, 1.5)),
    ):
        nll = -law.logpdf(y)
        low, high = law.interval(0.9)
        inside = (y > low) & (y < high)
        expected = {
            "nll": nll.mean(),
            "coverage": inside.mean(),
            "width": high - low,
            "rmse": np.sqrt(np.mean((y - 1) ** 2)),
        }
        found = {name: row.scores[name] for name in expected}
        assert found == pytest.approx(expected, rel=1e-4)
        assert row.errors["nll"] == pytest.approx(
            nll.std() / np.sqrt(192), rel=1e-3
        )
    assert table[0].behind == 0 and table[1].behind > 0
    text = str(table)
    assert text.splitlines()[0].split() == [
        *("model", "nll", "crps", "coverage", "width", "rmse"),
        *("nll", "-", "best"),
    ]
    assert text.splitlines()[1].startswith("right") and "*" in text
    with pytest.raises(ValueError, match="'narrow'.*'wide'"):
        table.row("wide")


def test_crps_from_draws_is_that_of_the_formula(rng):
    y = rng.normal(size=(4000, 1))
    law = kl.likelihoods.Normal(np.zeros_like(y, "float32"), scale=1.5)
    exact = crps(law, y).mean()

    class Drawn:
        sample = law.sample

        def crps(self, y):
            raise NotImplementedError

    assert crps(Drawn(), y).mean() == pytest.approx(exact, rel=0.01)


@pytest.mark.few(0)
def test_functions_are_cross_validated(rng):
    x = rng.normal(size=(96, 2)).astype("float32")
    y = 1 + rng.normal(size=(96, 1))
    seen = []

    def near(x, y):
        seen.append(len(x))
        return model_of(1.0, kl.losses.NormalLoss(), location=y.mean())

    def far():
        model = model_of(1.0, kl.losses.NormalLoss(), location=4.0)
        model.fit = lambda x, y, **options: seen.append(options)
        return model

    table = kl.compare(
        {"far": far, "near": near}, x, y, folds=3, fit={"epochs": 7}
    )
    assert [row.name for row in table] == ["near", "far"]
    assert seen == 3 * [{"verbose": 0, "epochs": 7}, 64]
    assert table.row("far").behind == pytest.approx(4.5, abs=0.7)
    assert 0 < table.row("far").behind_error < 1


@pytest.mark.few(0)
def test_stock_recalibrated_and_conformal_regressors(held_out):
    x, y = held_out
    stock = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    stock.compile("sgd", "mse")
    scaled = regression.GlobalRescaling().fit(stock, x, y)
    sure = ConformalIntervals().fit(scaled.model, x, y)
    table = kl.compare(
        {"stock": stock, "scaled": scaled.model, "sure": sure.model}, x, y
    )
    assert table[-1].name == "stock" and np.isnan(table[-1].scores["nll"])
    assert " - " in str(table)
    scaled, sure = table.row("scaled"), table.row("sure")
    assert scaled.scores["nll"] == pytest.approx(sure.scores["nll"])
    assert scaled.scores["rmse"] == pytest.approx(sure.scores["rmse"])
    assert sure.scores["coverage"] == pytest.approx(174 / 192, abs=0.011)


def test_classifiers():
    x, y = kinds.data()
    network = kinds.make("functional")
    scaled = kl.recalibration.GlobalScaling().fit(network, x, y)
    sets = kl.conformal.ConformalSets().fit(scaled.model, x, y)
    table = kl.compare(
        {"raw": network, "scaled": scaled.model, "sets": sets.model}, x, y
    )
    scores = table.row("raw").scores
    report = scaled.report_
    for name in ("nll", "ece", "accuracy"):
        assert scores[name] == pytest.approx(report[f"{name}_before"], abs=1e-4)
    assert table.row("scaled").scores["nll"] == pytest.approx(
        report["nll_after"], abs=1e-4
    )
    assert table.row("sets").scores == pytest.approx(
        table.row("scaled").scores, abs=1e-5
    )


def test_quantiles_are_judged_by_what_they_have(held_out):
    x, y = held_out
    inputs = keras.Input((2,))
    levels = (0.05, 0.5, 0.95)

    def quantiles(width):
        model = kl.LikelihoodModel(
            inputs, kl.layers.QuantilesHead(levels)(inputs)
        )
        model.compile("sgd", loss=kl.losses.QuantilesLoss(levels))
        model.predict = lambda *args, **kwargs: (
            np.tile(np.float32([1 - width, 1, 1 + width]), (len(y), 1)),
            np.full((len(y), 1), 0.2, "float32"),
        )
        return model

    table = kl.compare(
        {
            "narrow": quantiles(1.0),
            "right": quantiles(3.3),
            "normal": model_of(2.0, kl.losses.NormalLoss()),
        },
        x,
        y,
    )
    assert [row.name for row in table] == ["normal", "right", "narrow"]
    right = table.row("right").scores
    assert np.isnan(right["nll"]) and right["crps"] > 0
    inside = np.abs(y - 1) <= 3.3
    assert right["coverage"] == pytest.approx(inside.mean(), abs=1e-6)
    assert right["width"] == pytest.approx(6.6, rel=1e-5)
    assert right["rmse"] == pytest.approx(np.sqrt(np.mean((y - 1) ** 2)))


def test_vectors_are_judged_by_coordinate(rng):
    x = rng.normal(size=(64, 2)).astype("float32")
    y = rng.normal(size=(64, 2)) * [1, 3]
    inputs = keras.Input((2,))
    name = "multivariate_normal(covariance=full)"
    model = kl.LikelihoodModel(
        inputs, kl.layers.LikelihoodHead(name, 2)(inputs)
    )
    model.compile("sgd", loss=kl.losses.LikelihoodLoss(name))
    law = model.predict_distribution(x, verbose=0)
    (row,) = kl.compare({"vectors": model}, x, y)
    target = keras.ops.convert_to_tensor(y, "float32")
    nll = keras.ops.convert_to_numpy(law.nll(target)).mean()
    assert row.scores["nll"] == pytest.approx(nll, rel=1e-5)
    ends = [law.marginal(i).interval(0.9) for i in range(2)]
    inside = [
        (keras.ops.convert_to_numpy(low)[:, 0] <= y[:, i])
        & (y[:, i] <= keras.ops.convert_to_numpy(high)[:, 0])
        for i, (low, high) in enumerate(ends)
    ]
    assert row.scores["coverage"] == pytest.approx(np.mean(inside))
    assert np.isfinite(list(row.scores.values())).all()


@pytest.mark.few(0)
def test_censored_targets_have_an_nll_and_exact_ones_all(rng):
    x = rng.normal(size=(64, 2)).astype("float32")
    time = rng.weibull(1.5, size=64) + 0.1
    inputs = keras.Input((2,))
    survival = kl.likelihoods.Censored("weibull")
    head = kl.layers.LikelihoodHead(survival, 1)(inputs)
    model = kl.LikelihoodModel(inputs, head)
    model.compile("sgd", loss=kl.losses.LikelihoodLoss(survival))
    bounds = kl.censored(time, event=time < 1)
    (row,) = kl.compare({"survival": model}, x, bounds)
    nll = model.evaluate(x, bounds, verbose=0)
    nll = nll[0] if isinstance(nll, list) else nll
    assert row.scores["nll"] == pytest.approx(nll, rel=1e-4)
    assert np.isnan([row.scores[k] for k in ("crps", "coverage", "rmse")]).all()
    assert row.scores["width"] > 0
    for exact in (kl.censored(time, event=np.ones(64)), time):
        (row,) = kl.compare({"survival": model}, x, exact)
        assert np.isfinite(list(row.scores.values())).all()


def test_what_does_not_compare_is_refused(held_out):
    x, y = held_out
    model = model_of(1.0, kl.losses.NormalLoss())
    with pytest.raises(ValueError, match="all fitted models or all functions"):
        kl.compare({"a": model, "b": lambda: model}, x, y)
    with pytest.raises(ValueError, match="a dict of models"):
        kl.compare([model], x, y)
    with pytest.raises(ValueError, match="from 2 to"):
        kl.compare({"a": lambda: model}, x, y, folds=1)
