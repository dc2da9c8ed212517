"""`keras-likelihood checkup`, and `recalibrate` of regressors."""

import functools
import json
import re

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import cli
from keras_likelihood.commands.tasks import RegressorTask
from tests.refusals import refusal

pytestmark = pytest.mark.usefixtures("step_by_step")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An overconfident classifier, and a regressor with too large a scale."""
    folder = tmp_path_factory.mktemp("checkup")
    random = np.random.default_rng(0)
    x = random.normal(size=(128, 3)).astype("float32")
    y = (2 * x + random.gumbel(size=x.shape)).argmax(axis=1)
    inputs = keras.Input((3,))
    layer = keras.layers.Dense(
        3,
        kernel_initializer=keras.initializers.Identity(20.0),
        activation="softmax",
    )
    keras.Model(inputs, layer(inputs)).save(folder / "classes.keras")
    far = x.copy()
    # So far away that a barely trained detector finds it.
    far[5] = 1e9, -1e9, 1e9
    np.savez(folder / "classes.npz", x=far, y=y)
    target = x[:, :1] + random.normal(size=(128, 1))
    target[9] += 500.0
    np.savez(folder / "numbers.npz", x=x, y=target)
    outputs = kl.layers.ScaleHead(1, name="head")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("sgd", loss=kl.losses.NormalLoss())
    model.save(folder / "numbers.keras")
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    quick = functools.partial(kl.outliers.PCAScale, steps=1, batch_size=8)
    monkeypatch.setattr(kl.outliers, "PCAScale", quick)
    few = {
        "auto": "AutoRescaling",
        "global": "GlobalRescaling",
        "linear": "LinearRescaling",
    }
    monkeypatch.setattr(RegressorTask, "METHODS", few)


def checkup(files, kind, capsys, *more):
    page = files / f"{kind}.html"
    arguments = [
        *("checkup", files / f"{kind}.keras", "--force", "--json", "--quiet"),
        *("--data", files / f"{kind}.npz", "--output", page, *more),
    ]
    assert cli.main(list(map(str, arguments))) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return json.loads(printed.out), page.read_text(encoding="utf-8")


def test_a_classifier(files, capsys):
    told, page = checkup(files, "classes", capsys)
    assert told["task"] == "classification"
    calibration, labels, inputs, training = told["parts"]
    assert calibration["verdict"] == "bad"
    before, after = (calibration["numbers"][k] for k in ("before", "after"))
    assert after["NLL"] < before["NLL"]
    assert calibration["command"] == told["next_command"]
    assert "keras-likelihood recalibrate" in calibration["command"]
    assert labels["numbers"]["examples"] == 128
    assert "keras-likelihood audit" in labels["command"]
    assert inputs["numbers"]["strangest"][0]["row"] == 5
    assert "keras-likelihood detect" in inputs["command"]
    assert training["verdict"] == "unknown"
    for part in told["parts"]:
        assert part["title"] in page
    assert "default-src 'none'" in page
    assert not re.search(r"<script|<link|https?://", page)
    assert 'class="before"' in page and 'class="after"' in page


@pytest.mark.few(0)
def test_a_regressor_judged_on_other_data(files, capsys):
    test = ("--test", files / "numbers.npz")
    told, page = checkup(files, "numbers", capsys, *test)
    assert told["task"] == "regression"
    calibration, targets, *_, training = told["parts"]
    assert (
        calibration["numbers"]["after"]["NLL"]
        < (calibration["numbers"]["before"]["NLL"])
    )
    assert targets["numbers"]["worst"][0]["example"] == 9
    assert training["verdict"] in ("bad", "good")
    assert str(files / "numbers.npz") in page


def test_what_cannot_be_checked_is_said(files, tmp_path, capsys):
    page = tmp_path / "page.html"
    np.savez(tmp_path / "few.npz", x=np.zeros((3, 3)), y=np.zeros(3, int))
    np.savez(tmp_path / "wide.npz", x=np.zeros((30, 4)), y=np.zeros(30, int))
    fixed = (capsys, "checkup", files / "classes.keras", "--output", page)

    def words(data, **options):
        return refusal(*fixed, "--data", data, **options)

    assert "at least 20" in words(tmp_path / "few.npz", statuses=(1,))
    assert "(30, 4)" in words(tmp_path / "wide.npz", statuses=(1,))
    assert "whole numbers" in words(files / "numbers.npz", statuses=(1,))
    assert "no such file" in words(tmp_path / "none.npz", statuses=(2,))
    assert not page.exists()


@pytest.mark.few(0)
def test_a_regressor_is_recalibrated(files, tmp_path, capsys):
    output = tmp_path / "better.keras"
    data = str(files / "numbers.npz")
    arguments = ["recalibrate", str(files / "numbers.keras"), "--data", data]
    arguments += ["--method", "linear", "--output", str(output)]
    assert cli.main(arguments) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^linear .* best$", printed, re.M)
    assert "The NLL fell from" in printed
    assert "Next: " in printed
    x = np.load(data)["x"]
    prediction, *_, scale = keras.models.load_model(output).predict(
        x, verbose=0
    )
    assert prediction.shape == scale.shape == (128, 1)
    plain, beside = keras.models.load_model(files / "numbers.keras").predict(
        x, verbose=0
    )
    np.savez(
        tmp_path / "outputs.npz",
        prediction=plain,
        scale=beside,
        y=np.load(data)["y"],
    )
    arguments = ["--data", str(tmp_path / "outputs.npz"), "--json"]
    arguments += ["--output", str(tmp_path / "arrays.npz")]
    assert cli.main(["recalibrate", "--method", "global", *arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["task"] == "regression"
    assert told["scores"]["global"]["NLL"] < told["scores"]["none"]["NLL"]
    assert np.load(tmp_path / "arrays.npz")["scale"].shape == (128,)
    line = refusal(
        *(capsys, "recalibrate", files / "numbers.keras", "--data", data),
        *("--method", "vector"),
        statuses=(2,),
    )
    assert "must be one of auto, global, linear" in line


@pytest.mark.few(0)
def test_images_are_shown_wherever_there_are_any(tmp_path, capsys):
    random = np.random.default_rng(0)
    x = random.uniform(size=(40, 6, 6)).astype("float32")
    y = random.integers(0, 2, 40)
    inputs = keras.Input((6, 6))
    hidden = keras.layers.Dense(4)(keras.layers.Flatten()(inputs))
    outputs = keras.layers.Dense(2, activation="softmax")(hidden)
    keras.Model(inputs, outputs).save(tmp_path / "images.keras")
    np.savez(tmp_path / "images.npz", x=x, y=y)
    _, page = checkup(tmp_path, "images", capsys)
    tables = re.findall(r"<h3>([^<]*)</h3>(.*?)</table>", page, re.S)
    pictures = {title: body.count("<img") for title, body in tables}
    assert len(pictures) == 2
    assert all(1 <= count <= 10 for count in pictures.values())


def test_labels_that_the_model_draws_are_not_doubtful(tmp_path, capsys):
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 3)).astype("float32")
    y = (2 * x + random.gumbel(size=x.shape)).argmax(axis=1)
    layer = keras.layers.Dense(
        3,
        kernel_initializer=keras.initializers.Identity(2.0),
        activation="softmax",
    )
    inputs = keras.Input((3,))
    keras.Model(inputs, layer(inputs)).save(tmp_path / "right.keras")
    np.savez(tmp_path / "right.npz", x=x, y=y)
    told, page = checkup(tmp_path, "right", capsys)
    labels = told["parts"][1]
    assert labels["verdict"] == "good"
    assert "no sign of wrong labels" in page
