"""From labels to corrected labels: shell, browser, shell."""

import json
import shlex

import keras
import numpy as np
import pytest

from keras_likelihood import cli
from tests.audit.chromium import acted

pytestmark = pytest.mark.usefixtures("step_by_step")

REVIEW = """
const Real = Blob;
let text;
window.Blob = function (parts) { text = parts[0]; return new Real(parts); };
HTMLAnchorElement.prototype.click = function () {};
press("j");
const last = () => all("#suspected .pager button").at(-1);
while (!last().disabled) last().click();
all("#suspected tbody tr").at(-1).querySelector(".index").click();
document.querySelector("dialog").close();
press("a");
told.push(document.getElementById("progress").textContent);
click("#export");
told.push(text, document.querySelector("#apply pre").textContent);
"""


def test_wrong_labels_become_right_ones(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    true = random.integers(0, 4, 600)
    x = (np.eye(4)[true] + 0.1 * random.normal(size=(600, 4))).astype("float32")
    y = true.copy()
    y[:150] = (true[:150] + random.integers(1, 4, 150)) % 4
    np.savez("my data.npz", x=x, y=y)
    inputs = keras.Input((4,))
    layer = keras.layers.Dense(
        4,
        kernel_initializer=keras.initializers.Identity(5.0),
        activation="softmax",
    )
    keras.Model(inputs, layer(inputs)).save("model.keras")
    line = ["audit", "model.keras", "--data", "my data.npz", "--json"]
    assert cli.main(line) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["suspected"] > 100
    found = acted(tmp_path / "audit.html", tmp_path, REVIEW)
    progress, decisions, apply = found
    count = printed["suspected"]
    assert progress.startswith(f"{count} of {count} suspects decided: export")
    assert apply == printed["next_command"]
    (tmp_path / "decisions.csv").write_bytes(decisions.encode())
    name, *arguments = shlex.split(apply)
    assert name == "keras-likelihood"
    assert cli.main(arguments) == 0
    corrected = np.load("corrected.npz")
    assert len(corrected["y"]) == 600
    assert (corrected["y"] != true).sum() < 5
