"""Estimators for tables, fitted once for all tests in this file."""

import pathlib
import re

import keras
import numpy as np
import pytest

import keras_likelihood as kl

pandas = pytest.importorskip("pandas")


def make_table(rows=160, seed=0):
    """Numbers, a date, categories and missing values, with two targets."""
    random = np.random.default_rng(seed)
    size = random.normal(size=rows)
    kind = random.choice(["flat", "house", "boat"], rows)
    day = np.datetime64("2024-01-01") + random.integers(0, 900, rows)
    price = 300 + 50 * size + 80 * (kind == "house")
    price = price + 10 * random.standard_t(4, rows)
    table = pandas.DataFrame({"size": size, "kind": kind, "day": day})
    table.loc[random.random(rows) < 0.1, "size"] = np.nan
    table.loc[random.random(rows) < 0.1, "kind"] = None
    return table, price, np.where(price > 330, "dear", "cheap")


@pytest.fixture(scope="module")
def regressor():
    table, price, _ = make_table()
    model = kl.tabular.Regressor(members=6, epochs=8, random_state=0)
    return model.fit(table, price)


@pytest.fixture(scope="module")
def classifier():
    table, _, label = make_table()
    model = kl.tabular.Classifier(members=3, epochs=8, random_state=0)
    return model.fit(table, label)


def test_regressor_predicts(regressor):
    table, price, _ = make_table(200, seed=1)
    prediction = regressor.predict(table)
    assert prediction.shape == (200,)
    assert np.mean((prediction - price) ** 2) < 0.5 * np.var(price)
    median = regressor.predict(table, statistic="median")
    assert np.corrcoef(median, prediction)[0, 1] > 0.99
    found = regressor.predict_distribution(table).distribution
    parts = found.aleatoric + found.epistemic
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(parts),
        keras.ops.convert_to_numpy(found.variance()),
        rtol=1e-3,
    )


def test_intervals_cover(regressor):
    table, price, _ = make_table(200, seed=1)
    lower, upper = regressor.interval(table, 0.9)
    inside = (lower <= price) & (price <= upper)
    assert 0.8 < inside.mean() <= 1
    narrow = regressor.interval(table, 0.5)
    assert np.mean(narrow[1] - narrow[0]) < np.mean(upper - lower)


def test_there_is_one_interval(regressor):
    """Of the estimator, its distribution, its model and a served model."""
    table, _, _ = make_table(20, seed=1)
    found = regressor.predict_distribution(table)
    x = regressor.encode(table)
    for coverage in (0.5, 0.9):
        ends = np.transpose(regressor.interval(table, coverage))
        ways = {
            "distribution": found.interval(coverage),
            "quantile": [
                found.quantile((1 + s * coverage) / 2) for s in (-1, 1)
            ],
            "model": regressor.model.interval(x, coverage),
        }
        for name, other in ways.items():
            np.testing.assert_array_equal(
                np.concatenate(other, axis=1), ends, err_msg=name
            )
        served = regressor.model.at_coverage(coverage).predict(x, verbose=0)
        served = np.concatenate([served["lower"], served["upper"]], axis=1)
        np.testing.assert_allclose(served, ends, rtol=1e-4)
    middle = regressor.predict(table, statistic="median")
    for p in (0.5, np.nextafter(0.5, 1)):
        np.testing.assert_allclose(found.quantile(p)[:, 0], middle, rtol=0.02)


def test_one_file_holds_everything(regressor, classifier, tmp_path):
    table, _, _ = make_table(20, seed=1)
    for model in (regressor, classifier):
        path = tmp_path / "model.keras"
        model.save(path)
        loaded = kl.tabular.load(path)
        assert loaded.summary() == model.summary()
        assert np.array_equal(loaded.predict(table), model.predict(table))
        plain = keras.saving.load_model(path)
        before = model.model.predict(model.encode(table), verbose=0)
        after = plain.predict(loaded.encode(table), verbose=0)
        for one, other in zip(before, after, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


def served_outputs(model, x, folder):
    """Other programs get the same output from an exported model."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        model.export(str(folder / "served"), verbose=False)
        loaded = tf.saved_model.load(str(folder / "served"))
        yield keras.tree.flatten(loaded.serve(x))
    needed = {"tensorflow": "tf2onnx", "torch": "onnxscript"}[backend]
    pytest.importorskip(needed)
    onnxruntime = pytest.importorskip("onnxruntime")
    path = str(folder / "model.onnx")
    model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(path)
    yield session.run(None, {session.get_inputs()[0].name: x})


@pytest.mark.filterwarnings("ignore")
def test_served_models_give_equal_numbers(regressor, classifier, tmp_path):
    """Unseen categories and missing values are included."""
    if keras.backend.backend() == "jax":
        pytest.skip("exports need TensorFlow or PyTorch here")
    table, _, _ = make_table(12, seed=1)
    table.loc[0, "kind"], table.loc[1, "size"] = "castle", np.nan
    x = regressor.encode(table)
    assert x[0, 1] == 0 and np.isnan(x[1, 0])
    for model in (regressor.model, classifier.model):
        expected = keras.tree.flatten(model.predict(x, verbose=0))
        for found in served_outputs(model, x, tmp_path):
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-3)


def test_other_models_are_refused(tmp_path):
    inputs = keras.Input((2,))
    keras.Model(inputs, inputs * 2).save(tmp_path / "other.keras")
    with pytest.raises(ValueError, match="a Functional with 0 `TableFeatures`"):
        kl.tabular.load(tmp_path / "other.keras")


def test_classifier_predicts(classifier):
    table, _, label = make_table(200, seed=1)
    p = classifier.predict_proba(table)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert classifier.score(table, label) > 0.75
    sets = classifier.predict_set(table, 0.9)
    rows = np.arange(len(label))
    codes = np.searchsorted(classifier.classes_, label)
    assert sets[rows, codes].mean() > 0.8
    assert list(classifier.classes_) == ["cheap", "dear"]


LEVELS = ["low", "middle", "high", "top"]


def ordered_classes():
    """Inputs, ordered classes, and settings of a short training."""
    random = np.random.default_rng(0)
    x = random.normal(size=(150, 2))
    score = 2 * x[:, 0] + random.logistic(size=150)
    y = np.array(LEVELS)[np.digitize(score, [-2, 0, 1])]
    return x, y, {"members": 2, "epochs": 10, "random_state": 0}


@pytest.mark.few(0)
def test_ordered_classes_get_the_ordinal_likelihood(tmp_path):
    x, y, settings = ordered_classes()
    model = kl.tabular.Classifier(order=LEVELS, **settings).fit(x, y)
    assert model.classes_.tolist() == LEVELS
    assert "Likelihood: ordinal (classes with an order)" in model.summary()
    p = model.predict_proba(x)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    # A higher score moves probability only to higher classes.
    rows = np.stack([np.linspace(-2, 2, 20), np.zeros(20)], axis=1)
    below = np.cumsum(model.predict_proba(rows), axis=1)
    assert (below[0] - below[-1])[:3].min() > 0.1
    assert model.score(x, y) > 0.4
    model.save(tmp_path / "model.keras")
    loaded = kl.tabular.load(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.predict_proba(x), p, rtol=1e-5)
    assert loaded.summary() == model.summary()
    with pytest.raises(ValueError, match="`order` must.*without 'low'"):
        kl.tabular.Classifier(order=LEVELS[1:]).fit(x, y)


@pytest.mark.few(0)
def test_an_ordered_column_is_a_listed_order():
    x, y, settings = ordered_classes()
    column = pandas.Series(pandas.Categorical(y, LEVELS, ordered=True))
    given = kl.tabular.Classifier(**settings).fit(x, column)
    listed = kl.tabular.Classifier(order=LEVELS, **settings).fit(x, y)
    assert given.summary() == listed.summary()
    p = listed.predict_proba(x)
    np.testing.assert_allclose(given.predict_proba(x), p, rtol=1e-5)


@pytest.mark.few(0)
def test_two_ordered_classes_are_two_classes():
    x = np.random.default_rng(0).normal(size=(30, 1))
    y = np.where(x[:, 0] > 0, "a", "b")
    model = kl.tabular.Classifier(
        order=["b", "a"], members=2, epochs=2, random_state=0
    ).fit(x, y)
    assert model.classes_.tolist() == ["b", "a"]
    assert "softmax" in model.summary()
    assert model.score(x, y) > 0.6


@pytest.mark.few(0)
def test_wrong_labels_are_doubtful():
    random = np.random.default_rng(0)
    x = random.normal(size=(150, 2))
    y = (x[:, 0] > 0).astype(int)
    wrong = np.flatnonzero(np.abs(x[:, 0]) > 1)[:5]
    y[wrong] = 1 - y[wrong]
    model = kl.tabular.Classifier(members=2, epochs=30, random_state=0)
    found = model.fit(x, y).doubtful_labels_
    assert len(found) >= 3 and set(found) <= set(wrong)


def test_summary_names_the_likelihood(regressor, classifier):
    lines = regressor.summary().splitlines()
    assert lines[0] == "Regressor of 160 rows"
    assert lines[1] == "Columns: 1 number, 1 category, 1 date"
    assert lines[2] == "Likelihood: student_t (real numbers)"
    assert "NLL" in lines[3] and "RMSE" in lines[3]
    assert "softmax (classes)" in classifier.summary()


def test_rows_unlike_the_training_rows(regressor):
    table, _, _ = make_table(3, seed=1)
    table["size"] = [0.0, 99.0, np.nan]
    table["kind"] = ["flat", "castle", "boat"]
    assert regressor.unlike_training(table) == [[], ["size", "kind"], []]
    assert np.isfinite(regressor.predict(table)).all()


def test_columns_may_come_as_a_dict(regressor):
    table, _, _ = make_table(5, seed=1)
    cells = {name: table[name].to_numpy() for name in table.columns[::-1]}
    cells["another"] = np.zeros(5)
    found = regressor.predict(cells)
    np.testing.assert_allclose(found, regressor.predict(table), rtol=1e-5)
    del cells["size"]
    with pytest.raises(ValueError, match="Received: no column size"):
        regressor.predict(cells)


def test_report_is_one_page(regressor, classifier, tmp_path):
    for model in (regressor, classifier):
        page = tmp_path / "report.html"
        assert model.report(page) == str(page)
        text = page.read_text()
        for words in ("boosted trees", "Calibration", "Effect of size", "kind"):
            assert words in text


@pytest.mark.few(0)
def test_report_of_a_sorted_table(regressor, tmp_path, monkeypatch):
    """Baselines and effects use rows of the whole table in random order."""
    held = regressor.held_out_
    order = np.argsort(held["y"])
    sorted_rows = {name: values[order] for name, values in held.items()}
    monkeypatch.setattr(regressor, "held_out_", sorted_rows)
    text = pathlib.Path(regressor.report(tmp_path / "page.html")).read_text()
    row = re.search("boosted trees(.*?)</tr>", text, re.DOTALL).group(1)
    error = float(re.findall(r"[\d.]+(?=</td>)", row)[-1])
    assert error < 0.55 * np.std(held["y"])


@pytest.mark.few(0)
def test_same_seed_same_predictions():
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = x[:, 0] + 5
    found = [
        kl.tabular.Regressor(members=2, epochs=2, random_state=seed)
        .fit(x, y)
        .predict(x)
        for seed in (1, 1, 2)
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert np.abs(found[0] - found[2]).max() > 1e-3


@pytest.mark.few(0)
def test_rows_without_weight_do_not_count():
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 1))
    y = x[:, 0].copy()
    weight = np.ones(60)
    y[::3], weight[::3] = 1e6, 0
    model = kl.tabular.Regressor(members=2, epochs=3, random_state=0)
    model.fit(x, y, sample_weight=weight)
    assert np.abs(model.predict(x)).max() < 100
    assert model.scores_["rows"] == 40
    assert not set(model.held_out_["row"]) & set(range(0, 60, 3))


@pytest.mark.few(0)
def test_wrong_labels_are_not_learned(tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 2))
    label = (x[:, 0] > 0).astype(int)
    given = np.where(random.random(200) < 0.2, 1 - label, label)
    model = kl.tabular.Classifier(
        label_noise=True, members=2, epochs=8, random_state=0
    ).fit(x, given)
    assert np.mean(model.predict(x) == label) > 0.9
    wrong = given != label
    assert np.mean(wrong[model.doubtful_labels_]) > 0.8
    model.save(tmp_path / "model.keras")
    loaded = kl.tabular.load(tmp_path / "model.keras")
    assert loaded.label_noise
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
