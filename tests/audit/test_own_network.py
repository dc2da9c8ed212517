"""Audits of data without a model."""

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import cli
from keras_likelihood.auditing.own_network import _body
from tests.audit.test_audit_page import embedded
from tests.refusals import refusal


def blobs(rng, n=120):
    """Two clusters, a constant column, missing values and wrong labels."""
    y = np.arange(n) % 2
    x = rng.normal(size=(n, 4)).astype("float32")
    x[:, 0] += 5.0 * y
    x[:, 2] = 123456.7
    x[::7, 1] = np.nan
    moved = np.arange(0, n, 15)
    given = y.copy()
    given[moved] = 1 - given[moved]
    return x, given, moved


def test_the_command_trains_and_finds_moved_labels(rng, tmp_path, capsys):
    x, y, moved = blobs(rng)
    np.savez(tmp_path / "train.npz", x=x, y=y)
    (tmp_path / "names.txt").write_text("cat\ndog\ncow\n")
    page = tmp_path / "audit.html"
    arguments = ["--data", tmp_path / "train.npz", "--output", page]
    arguments += ["--labels", tmp_path / "names.txt", "--epochs", 12]
    arguments += ["--issues", tmp_path / "issues.csv"]
    assert cli.main(["audit", *map(str, arguments)]) == 0
    printed = capsys.readouterr()
    assert str(page) in printed.out
    assert "training a network: 1 of 12" in printed.err
    assert "training a network: 12 of 12" in printed.err
    data = embedded(page)
    assert data["labels"] == ["cat", "dog", "cow"]
    places = data["sections"]["highest"][:8]
    found = {data["rows"][at]["index"] for at in places}
    assert len(found & set(moved.tolist())) >= 6
    features = next(r["features"] for r in data["rows"] if r["index"] % 7 == 0)
    assert features[1] is None and len(features) == 4


@pytest.mark.few(0)
def test_targets_have_scales_in_their_unit(rng):
    x = rng.normal(size=(100, 2))
    y = 1000 * x[:, 0] + 10 * rng.normal(size=100) - 5e4
    wrong = [3, 50, 71]
    y[wrong] += 9000, 9000, 1e9
    epochs = []
    watcher = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: epochs.append(epoch)
    )
    model = kl.auditing.train_for_audit(x, y, epochs=25, callbacks=[watcher])
    assert epochs == list(range(25))
    report = kl.audit(model, x, y, None)
    assert report.task == "regression"
    assert report.score_name == "learned scale"
    assert np.median(report.scores) > 5
    assert set(report.suspects()[:3]) == set(wrong)
    assert set(report.ranked()[:3]) == set(wrong)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "shape, dtype",
    [
        ((8, 8), "uint8"),
        ((28, 28, 1), "float32"),
        ((3, 32, 32), "float64"),
        ((225, 150, 3), "uint8"),
        ((5, 2, 2), "float32"),
        ((7,), "int32"),
    ],
)
def test_every_shape_has_a_network(rng, shape, dtype):
    x = rng.integers(0, 256, (4, *shape)).astype(dtype)
    inputs, features = _body(x)
    values = keras.Model(inputs, features).predict(x, verbose=0)
    assert values.ndim == 2 and np.isfinite(values).all()
    assert inputs.shape == (None, *shape)
    assert values.shape[1] < 3000


def test_inputs_are_standardised_and_constants_stay_finite():
    x = np.full((50, 3), 1e9)
    x[:, 1] = np.arange(50) * 1e12
    x[:, 2] = 0.1
    inputs, _ = _body(x)
    model = keras.Model(*_body(x))
    layer = next(
        e for e in model.layers if isinstance(e, keras.layers.Normalization)
    )
    z = keras.ops.convert_to_numpy(layer(x.astype("float32")))
    np.testing.assert_allclose(z[:, 1].std(), 1, rtol=1e-3)
    np.testing.assert_allclose(z[:, [0, 2]], 0, atol=1e-6)


def test_missing_values_are_filled():
    x = np.array([[1.0, np.nan, 2], [3, np.nan, np.nan], [8, np.nan, 6]])
    filled = kl.auditing.fill_missing(x)
    expected = [[1, 0, 2, 1, 0], [3, 0, 4, 1, 1], [8, 0, 6, 1, 0]]
    np.testing.assert_array_equal(filled, expected)
    whole = np.arange(6).reshape(3, 2)
    assert kl.auditing.fill_missing(whole) is whole


GOOD = np.arange(12.0).reshape(6, 2)
HALVES = np.arange(6) % 2


@pytest.mark.parametrize(
    "x, y, options, words",
    [
        (
            GOOD,
            np.zeros(6, int),
            {},
            "at least two classes.*6 labels of 2 classes",
        ),
        (GOOD, HALVES + 6, {}, "as many examples as classes.*8 classes"),
        (GOOD, HALVES - 1, {}, "whole numbers from 0"),
        (GOOD, HALVES + 0.5, {"task": "classification"}, "whole numbers"),
        (GOOD, HALVES, {"classes": 1}, "at least two classes"),
        (GOOD, HALVES + 1, {"classes": 2}, "from 0 to 1. Received: \\[2\\]"),
        (GOOD[:5], HALVES, {}, "one entry per example"),
        (GOOD, np.array(list("abcabc")), {}, "dtype <U1"),
        (GOOD, HALVES + 0.5, {}, "needs at least 10 examples"),
        (np.ones((12, 2)), np.full(12, 0.5), {}, "targets that differ"),
        (np.ones((12, 2)), np.full((12, 2), 0.5), {}, "one number per example"),
        (GOOD[:, 0], HALVES, {}, "table \\(n, features\\) or images"),
        (GOOD[:, :0], HALVES, {}, "table \\(n, features\\) or images"),
        (np.array(["a"] * 6), HALVES, {}, "must be an array of numbers"),
        ({"a": GOOD}, HALVES, {}, "must be an array of numbers"),
        (GOOD * np.nan, HALVES, {}, "`x` must be finite"),
        (GOOD * 1e15, HALVES, {}, "an array of numbers up to 1e\\+15"),
        (GOOD, HALVES, {"task": "ranking"}, "`task` must be"),
        (GOOD, HALVES, {"epochs": 0}, "`epochs` must be a whole number >= 1"),
    ],
)
def test_what_cannot_be_learned_is_said_before(x, y, options, words):
    watcher = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: pytest.fail("it trained")
    )
    with pytest.raises(ValueError, match=f"(?s){words}"):
        kl.auditing.train_for_audit(x, y, **options, callbacks=[watcher])


def test_bad_files_are_refused_before_training(rng, tmp_path, capsys):
    x, y, _ = blobs(rng)
    path, page = tmp_path / "train.npz", tmp_path / "audit.html"

    def words(*options, **arrays):
        np.savez(path, **({"x": x, "y": y} | arrays))
        fixed = ("audit", "--data", path, "--output", page)
        return refusal(capsys, *fixed, *options)

    (tmp_path / "two.txt").write_text("a\nb\n")
    labels = ("--labels", tmp_path / "two.txt")
    assert "from 0 to 1" in words(*labels, y=y + 1)
    assert "`x` must be finite" in words(x=x[:, :, None])
    (tmp_path / "model.keras").write_text("model")
    assert "--epochs" in words(tmp_path / "model.keras", "--epochs", 3)
    assert not page.exists()
