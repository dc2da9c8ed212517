"""Our own files are read by all our commands."""

import functools
import json
import shlex

import keras
import numpy as np
import pytest

from keras_likelihood import cli, outliers
from keras_likelihood.commands.tasks import ClassifierTask
from tests.audit.chromium import rendered

pytest.importorskip("sklearn")


def run(line, capsys):
    """Runs a command line; returns its JSON output."""
    words = shlex.split(line)
    if words[0] == "keras-likelihood":
        del words[0]
    capsys.readouterr()
    status = cli.main([*words, "--json", "--quiet"])
    printed = capsys.readouterr()
    assert status == 0, (line, printed.err)
    return json.loads(printed.out)


def save_classifier(path, scale):
    """A classifier of four classes whose logits are its scaled inputs."""
    inputs = keras.Input((4,))
    layer = keras.layers.Dense(
        4,
        kernel_initializer=keras.initializers.Identity(scale),
        activation="softmax",
    )
    keras.Model(inputs, layer(inputs)).save(path)


@pytest.mark.few(0)
def test_our_own_files_are_read_by_all_our_commands(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    few = {"auto": "AutoScaling", "global": "GlobalScaling"}
    monkeypatch.setattr(ClassifierTask, "METHODS", few)
    quick = functools.partial(outliers.PCAScale, steps=20)
    monkeypatch.setattr(outliers, "PCAScale", quick)
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 4)).astype("float32")
    y = (2 * x + random.gumbel(size=x.shape)).argmax(axis=1)
    np.savez("data.npz", x=x, y=y)
    save_classifier("model.keras", 20.0)
    found = run("checkup model.keras --data data.npz", capsys)
    assert "recalibrate" in found["next_command"]
    # The suggested command writes a pool of recalibrators, the default.
    found = run(found["next_command"], capsys)
    assert found["written"] == ["calibrated.keras"]
    found = run("checkup calibrated.keras --data data.npz --force", capsys)
    assert found["parts"][0]["numbers"]["before"]["NLL"] < 1.4
    page = rendered(tmp_path / "checkup.html", tmp_path / "profile")
    for part in found["parts"]:
        assert part["title"] in page.text and part["summary"] in page.text
    found = run("audit calibrated.keras --data data.npz", capsys)
    page = rendered(tmp_path / "audit.html", tmp_path / "profile")
    rows = page.sections["suspected"]
    assert len([row for row in rows if row]) == min(found["suspected"], 24)
    again = "recalibrate calibrated.keras --data data.npz --method global"
    found = run(f"{again} --output twice.keras", capsys)
    p = keras.models.load_model("twice.keras").predict(x, verbose=0)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
