"""Detectors: scores, the PyOD contract, files, bad input."""

import json
import os

import keras
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import keras_likelihood as kl
from keras_likelihood.outliers import (
    AutoDetector,
    AutoencoderScale,
    OutlierDetector,
    PCAScale,
    ScoreDetector,
)
from keras_likelihood.outliers.auto import (
    fit_marginals,
    fit_tails,
    log_tails,
    surprise,
)
from keras_likelihood.outliers.scale_detector import RowNoise
from tests.batches import many_times

DETECTORS = [PCAScale, AutoencoderScale, AutoDetector]


def quick(detector=PCAScale, **options):
    settings = {"steps": 30, "batch_size": 32, "random_state": 0}
    return detector(**{**settings, **options})


def plane_with_outliers(seed=0):
    """Rows near a plane in six dimensions. The last 20 are off the plane."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(400, 2)) @ random.normal(size=(2, 6))
    x += 0.1 * random.normal(size=x.shape)
    deviation = x.std(axis=0)
    x[-20:] = random.normal(size=(20, 6)) * deviation
    return x, np.arange(400) >= 380


@pytest.fixture(scope="module", params=DETECTORS)
def fitted(request):
    x, _ = plane_with_outliers()
    return quick(request.param).fit(x)


@pytest.fixture(scope="module")
def x():
    return plane_with_outliers()[0]


@pytest.mark.few(0)
@pytest.mark.parametrize(
    "detector, steps",
    [(PCAScale, 800), (AutoencoderScale, 150), (AutoDetector, 150)],
)
def test_weak_noise_finds_rows_off_the_plane(detector, steps):
    x, outlier = plane_with_outliers()
    fitted = detector(
        noise=0.3, steps=steps, random_state=0, contamination=0.05
    ).fit(x)
    # In every single column these rows look like the others.
    z = np.abs((x - x.mean(axis=0)) / x.std(axis=0))
    assert roc_auc_score(outlier, z.max(axis=1)) < 0.75
    assert roc_auc_score(outlier, fitted.decision_scores_) > 0.8
    assert fitted.labels_.sum() == 20


@pytest.mark.few(0)
def test_the_settings_of_the_paper(tmp_path):
    """A normal likelihood, no noise, and a scale that is linear in the row."""
    x, outlier = plane_with_outliers()
    x[outlier, 0] += 5 * x[:, 0].std()
    fitted = PCAScale.of_paper(steps=400, random_state=0).fit(x)
    assert roc_auc_score(outlier, fitted.decision_scores_) > 0.8
    layers = [type(layer).__name__ for layer in fitted.model_.layers]
    assert layers.count("Dense") == 2
    rate = float(fitted.model_.optimizer.learning_rate)
    assert rate == pytest.approx(5e-4)
    fitted.save(tmp_path / "detector.zip")
    again = PCAScale.load(tmp_path / "detector.zip")
    assert again.likelihood == "normal" and again.steps == 400
    laplace = clone(fitted).set_params(likelihood="laplace").fit(x)
    gap = laplace.decision_scores_ - fitted.decision_scores_
    assert np.abs(gap).max() > 0.01


@pytest.mark.few(2)
@pytest.mark.parametrize("method", ["linear", "unify"])
def test_probabilities_rise_with_the_score(fitted, x, method):
    p = fitted.predict_proba(x, method)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert p.min() >= 0 and p.max() <= 1
    order = np.argsort(fitted.decision_scores_)
    assert (np.diff(p[order, 1]) >= -1e-6).all()
    assert p[order[-1], 1] > 0.9
    with pytest.raises(ValueError, match="'linear' or 'unify'"):
        fitted.predict_proba(x, "softmax")


@pytest.mark.few(0)
@pytest.mark.parametrize("detector", DETECTORS)
def test_refit_equals_fresh_fit(detector, x, request):
    if detector is not PCAScale:
        # One compiled training represents all.
        request.getfixturevalue("step_by_step")
    x = x[-96:]
    fitted = quick(detector, steps=3).fit(x)
    fresh = fitted.decision_scores_
    again = clone(fitted).fit(x[:40])
    np.testing.assert_array_equal(again.fit_predict(x), fitted.labels_)
    np.testing.assert_array_equal(again.decision_scores_, fresh)
    other = clone(fitted).set_params(random_state=1).fit(x).decision_scores_
    assert np.abs(other - fresh).max() > 1e-3


@pytest.mark.few(0)
@pytest.mark.usefixtures("step_by_step")
def test_fit_leaves_global_random_state_alone():
    x, _ = plane_with_outliers()
    np.random.seed(3)
    expected = np.random.random()
    np.random.seed(3)
    quick(steps=3).fit(x)
    assert np.random.random() == expected


@pytest.mark.few(1)
def test_score_does_not_depend_on_batch_mates(fitted, x):
    alone = [fitted.decision_function(x[i : i + 1])[0] for i in range(5)]
    together = fitted.decision_function(x)[:5]
    np.testing.assert_allclose(alone, together, rtol=1e-4, atol=1e-5)


@pytest.mark.few(0)
def test_units_and_constant_columns_do_not_matter():
    x, _ = plane_with_outliers()
    plain = quick().fit(x).decision_scores_
    stretched = x * [1e-6, 1, 1e6, 3, 1, 1] + [5, 0, -1e6, 0, 0, 0]
    wider = np.insert(stretched, 2, 0.1, axis=1)
    found = quick().fit(wider).decision_scores_
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, plain, rtol=1e-2, atol=1e-2)


@pytest.mark.few(0)
def test_auto_sees_every_kind():
    """Rows off the plane, in one column, and far away are in the top 10 %."""
    x, outlier = plane_with_outliers()
    x, x_new = x[~outlier], x[outlier][:3].copy()
    x_new[1] = x[0]
    x_new[1, 2] += 6 * x[:, 2].std()
    x_new[2] = 5 * x.std(axis=0)
    fitted = quick(AutoDetector, steps=60).fit(x)
    scores = fitted.decision_function(x_new)
    assert (scores > fitted.threshold_).all()
    kinds = fitted.kinds(x_new)
    assert list(kinds) == ["joint", "elements", "columns", "deep"]
    # In every single column the first row is like the others.
    assert kinds["elements"][0] > 2 * kinds["columns"][0]
    np.testing.assert_allclose(
        np.mean(list(kinds.values()), axis=0), scores, rtol=1e-5
    )


def test_tails_are_those_of_the_scores_seen(rng):
    scores = np.column_stack(
        [rng.exponential(size=5000), rng.integers(0, 3, 5000)]
    )
    quantiles = fit_tails(scores)
    found = log_tails(scores, quantiles, 5000)
    # The log tail of an exponential is linear, also beyond the last row.
    near = scores[:, 0] < 4
    np.testing.assert_allclose(found[near, 0], scores[near, 0], atol=0.25)
    far = log_tails(np.array([[20.0, 9.0]]), quantiles, 5000)[0]
    assert far[0] == pytest.approx(20, rel=0.3) and far[1] > found[:, 1].max()
    assert len(np.unique(found[:, 1].round(9))) == 3


def test_marginals_are_densities(rng):
    z = np.column_stack([rng.normal(size=2000), rng.standard_t(1, 2000)])
    tables = fit_marginals(z[:, :1])
    at = np.linspace(-3, 3, 601)[:, None]
    density = np.exp(-surprise(at, tables))
    np.testing.assert_allclose(
        density, np.exp(-(at[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi), atol=0.05
    )
    assert density.sum() * 0.01 == pytest.approx(1, abs=0.03)
    # One far value does not widen the kernels of the others.
    tables = fit_marginals(z)
    at = np.array([[0.0, 0.0], [0.0, 50.0]])
    near, far = surprise(at, tables)
    assert far > near + 4


@pytest.mark.few(1)
def test_save_and_load(fitted, x, tmp_path):
    path = tmp_path / "detector.zip"
    fitted.save(path)
    loaded = type(fitted).load(path)
    np.testing.assert_allclose(
        loaded.decision_function(x), fitted.decision_scores_, rtol=1e-6
    )
    np.testing.assert_array_equal(loaded.predict(x), fitted.labels_)
    assert loaded.get_params() == fitted.get_params()
    other = next(d for d in DETECTORS if d is not type(fitted))
    with pytest.raises(ValueError, match=f"a {type(fitted).__name__}"):
        other.load(path)
    loaded.save(tmp_path / "again.zip")
    again = type(fitted).load(tmp_path / "again.zip")
    np.testing.assert_array_equal(
        again.decision_function(x), loaded.decision_function(x)
    )


@pytest.mark.few(2)
def test_bad_files_are_refused_with_their_path(fitted, tmp_path):
    path, kind = tmp_path / "bad.zip", type(fitted)
    fitted.save(path)
    with np.load(path) as file:
        parts = dict(file)
    about = json.loads(str(parts["about"]))
    wide = {**about, "options": {**about["options"], "scale_units": 10**9}}
    for changes, words in (
        ({"mean_": np.full_like(fitted.mean_, np.nan)}, "it has NaN"),
        ({"mean_": np.zeros(2**27)}, "must not unpack to more than 100 times"),
        ({"about": "[" * 10_000}, "is damaged"),
        ({"about": "{}"}, "is damaged.*KeyError"),
        ({"about": json.dumps(wide)}, "`scale_units` must be"),
        ({"weight_0": np.zeros((1, 1))}, "is damaged"),
    ):
        with open(path, "wb") as file:
            np.savez_compressed(file, **{**parts, **changes})
        with pytest.raises(kl.FileError, match=f"bad.zip.*{words}"):
            kind.load(path)
    for content in (b"", b"PK", path.read_bytes()[:-30]):
        path.write_bytes(content)
        with pytest.raises(kl.FileError, match="bad.zip.*is damaged"):
            kind.load(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(kl.FileError, match="a file is needed"):
        kind.load(path)


@pytest.mark.parametrize(
    "option, value",
    [
        ("contamination", 0.6),
        ("noise", -1.0),
        ("dropout", 1.0),
        ("steps", 0),
        ("learning_rate", 0.0),
        ("hidden_units", 0),
    ],
)
def test_bad_options_are_refused(option, value):
    x, _ = plane_with_outliers()
    detector = AutoencoderScale(**{option: value})
    with pytest.raises(ValueError, match=f"`{option}`.*Received: {value}"):
        detector.fit(x)


def test_a_table_without_a_column_that_varies_is_refused():
    with pytest.raises(ValueError, match="2 constant column"):
        quick().fit(np.ones((5, 2)))


def test_row_noise_has_a_level_for_each_row():
    noise = RowNoise(2.0, seed=0)
    x = np.ones((2000, 50), "float32")
    np.testing.assert_array_equal(noise(x), x)
    added = keras.ops.convert_to_numpy(noise(x, training=True)) - x
    levels = np.sort(added.std(axis=1))
    expected = np.linspace(0, 2, 2000)
    np.testing.assert_allclose(levels, expected, atol=0.6)
    assert np.abs(levels - expected).mean() < 0.1


@pytest.mark.parametrize("rows", [3, 10, 5000])
def test_rounds_are_whole_batches_of_every_row(rows):
    detector = PCAScale(steps=1000, batch_size=4)
    x = np.arange(float(rows))[:, None]
    z, rounds = detector._rounds(x, np.random.RandomState(0))
    assert len(z) % 4 == 0
    assert rounds * len(z) // 4 == 1000
    seen, times = np.unique(z, return_counts=True)
    assert len(seen) == min(rows, len(z))
    assert times.max() - times.min() <= 1


@pytest.mark.skipif(
    keras.backend.backend() != "torch",
    reason="fifty fits; no backend is part of scikit-learn's contract",
)
@parametrize_with_checks([PCAScale(steps=5, batch_size=16, random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def scale_model(x, y):
    inputs = keras.Input((1,))
    h = keras.layers.Dense(32, activation="relu")(inputs)
    outputs = kl.layers.ScaleHead(1)(h)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.02), loss=kl.losses.NormalLoss())
    model.fit(*many_times(40, x, y), batch_size=64, verbose=0)
    return model


@pytest.mark.few(0)
def test_score_detector_ranks_by_predicted_scale():
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (400, 1)).astype("float32")
    noisy = x[:, 0] > 0.5
    y = x + np.where(noisy, 1.0, 0.05)[:, None] * random.normal(size=x.shape)
    model = scale_model(x, y.astype("float32"))
    fitted = ScoreDetector(model, contamination=0.25).fit(x)
    assert roc_auc_score(noisy, fitted.decision_scores_) > 0.95
    _, scale = model.predict(x, verbose=0)
    np.testing.assert_allclose(
        fitted.decision_function(x), np.log(scale[:, 0]), rtol=1e-4, atol=1e-5
    )
    assert isinstance(fitted, OutlierDetector)


@pytest.mark.few(0)
def test_score_detector_ranks_training_points_by_data_parameter():
    keras.utils.set_random_seed(0)
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 1)).astype("float32")
    y = x.copy()
    y[:6] += 5.0
    scale = kl.DataParameter(64, learning_rate=0.1)
    inputs = keras.Input((1,))
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(inputs))
    model.compile(
        keras.optimizers.Adam(0.05), loss=kl.losses.NormalLoss(scale=scale)
    )
    inputs, targets, index = many_times(40, x, y, np.arange(64))
    model.fit(
        inputs, kl.indexed(targets, index=index), callbacks=[scale], verbose=0
    )
    fitted = ScoreDetector(model).fit(x)
    assert set(np.argsort(fitted.decision_scores_)[-6:]) == set(range(6))
    with pytest.raises(ValueError, match="only for the 64 training"):
        fitted.decision_function(x)
    with pytest.raises(ValueError, match="64 training.*Received: 10"):
        ScoreDetector(model).fit(x[:10])


def test_score_detector_refuses_models_without_a_score():
    inputs = keras.Input((1,))
    stock = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    with pytest.raises(ValueError, match="LikelihoodModel"):
        ScoreDetector(stock).fit(np.zeros((3, 1)))
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(inputs))
    model.compile("adam", loss=kl.losses.NormalLoss())
    with pytest.raises(ValueError, match="one scale for all"):
        ScoreDetector(model).fit(np.zeros((3, 1), "float32"))
    with pytest.raises(ValueError, match="'scale'.*'shape'"):
        ScoreDetector(model, parameter="shape").fit(np.zeros((3, 1)))


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="about PyTorch")
def test_small_networks_train_on_one_thread():
    import torch

    found = []
    watcher = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: found.append(torch.get_num_threads())
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        detector = PCAScale(steps=1, batch_size=8, random_state=0)
        detector.callbacks = [watcher]
        detector.fit(np.random.default_rng(0).normal(size=(20, 3)))
        assert found == [1] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("units, ending", [(3, "softmax"), (1, "sigmoid")])
def test_a_stock_classifier_scores_by_its_logits(units, ending):
    x = np.random.default_rng(0).normal(size=(50, 4)).astype("float32")
    inputs = keras.Input((4,))
    logits = keras.layers.Dense(units)(inputs)
    outputs = keras.layers.Activation(ending)(logits)
    model = keras.Model(inputs, outputs)
    z = keras.Model(inputs, logits).predict(x, verbose=0).astype("float64")
    z = z if units > 1 else np.c_[np.zeros(50), z]
    detector = ScoreDetector(model).fit(x)
    expected = -np.log(np.exp(z).sum(axis=1))
    np.testing.assert_allclose(detector.decision_scores_, expected, atol=1e-4)
    detector = ScoreDetector(model, parameter="max_logit").fit(x)
    found = detector.decision_function(x[:9])
    np.testing.assert_allclose(found, -z[:9].max(axis=1), atol=1e-4)
    with pytest.raises(ValueError, match="`parameter` must be one of"):
        ScoreDetector(model, parameter="scale").fit(x)
