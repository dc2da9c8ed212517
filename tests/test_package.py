"""What a user meets first: the import, the README, the command."""

import importlib.metadata
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood import cli

ROOT = pathlib.Path(__file__).parents[1]
HEAVY = ("matplotlib", "rich", "scipy", "sklearn", "tensorflow_probability")


def test_import_is_light():
    """No plotting, no SciPy, no backend that was not asked for."""
    code = (
        "import sys, keras; before = set(sys.modules);"
        "import keras_likelihood; new = set(sys.modules) - before;"
        "print(*sorted({m.split('.')[0] for m in new}))"
    )
    new = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "keras_likelihood" in new
    others = {"tensorflow", "jax", "torch"} - {keras.backend.backend()}
    assert not set(new) & {*HEAVY, *others}


def test_version_is_the_installed_one():
    assert importlib.metadata.version("keras-likelihood") == kl.__version__


def test_every_public_name_exists_and_is_documented():
    for module in (kl, kl.constraints, kl.layers, kl.likelihoods, kl.losses):
        assert module.__doc__
        for name in getattr(module, "__all__", []):
            thing = getattr(module, name)
            assert isinstance(thing, str) or thing.__doc__, name


def test_only_the_backend_room_imports_frameworks():
    pattern = re.compile(r"^\s*(import|from) (tensorflow|jax|torch)\b", re.M)
    for path in (ROOT / "keras_likelihood").rglob("*.py"):
        text = path.read_text()
        assert "keras.src" not in text, path
        if path.parent.name != "backend":
            assert not pattern.search(text), path


def test_missing_extras_are_named(monkeypatch):
    def lost(name):
        missing = "scipy" if name.endswith("recalibration") else "unheard_of"
        raise ModuleNotFoundError(f"no {missing}", name=missing)

    monkeypatch.setattr("importlib.import_module", lost)
    advice = r"kl.recalibration needs scipy.*\[all\]"
    with pytest.raises(ModuleNotFoundError, match=advice):
        kl.__getattr__("recalibration")
    with pytest.raises(ModuleNotFoundError, match="no unheard_of"):
        kl.__getattr__("compare")


def readme_blocks():
    text = (ROOT / "README.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, flags=re.S)


def test_readme_is_near_the_truth(capsys):
    """The first block and the sentence below it."""
    scope = {}
    exec(compile(readme_blocks()[0], "README.md", "exec"), scope)
    printed = float(re.search(r"[\d.]+$", capsys.readouterr().out.strip())[0])
    assert printed < 0.12
    layers = [keras.layers.Dense(64, activation="tanh") for _ in range(2)]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    x, y = scope["x"], scope["y"]
    model.fit(x, y, batch_size=100, epochs=100, verbose=0)
    distance = np.abs(model.predict(x, verbose=0) - scope["truth"]).mean()
    assert 0.3 < distance < 0.5


def test_readme_makes_intervals_from_a_table(tmp_path, monkeypatch, capsys):
    """The block about a table of one's own, in units of its own."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.uniform([40, 1900], [250, 2020], size=(600, 2))
    y = 1500 * x[:, 0] + rng.normal(size=600) * 100 * x[:, 0]
    table = np.column_stack([x, y])
    np.savetxt(tmp_path / "table.csv", table, "%.6g", ",", header="a,b,y")
    monkeypatch.chdir(tmp_path)
    exec(compile(readme_blocks()[1], "README.md", "exec"), scope := {})
    inside = int(re.match(r"(\d+)%", capsys.readouterr().out)[1])
    assert 80 <= inside <= 99
    # Without inputs it would have to be about 280,000.
    assert (scope["upper"] - scope["lower"]).mean() < 90_000


def test_readme_runs(tmp_path):
    """The other blocks in order, as a reader would type them."""
    rng = np.random.default_rng(0)
    inputs, maps = keras.Input((13,)), keras.Input((4,))
    scope = {
        "keras": keras,
        "kl": kl,
        "x": rng.normal(size=(64, 13)).astype("float32"),
        "y": rng.normal(size=(64, 1)).astype("float32"),
        "inputs": inputs,
        "features": keras.layers.Dense(4)(inputs),
        "maps": maps,
    }
    blocks = readme_blocks()[2:]
    assert len(blocks) >= 4
    for block in blocks:
        if '"depth"' in block:
            first_inputs, scope["inputs"] = scope["inputs"], maps
        elif "DataParameter" in block:
            scope["inputs"] = first_inputs
        block = block.replace("model.fit(x, ", "model.fit(x, verbose=0, y=")
        block = block.replace("calibrated.keras", f"{tmp_path}/file.keras")
        exec(compile(block, "README.md", "exec"), scope)
    assert scope["suspects"].shape == (20,)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_demo_tells_its_stories(tmp_path, capsys):
    pytest.importorskip("sklearn")
    assert cli.main(["demo", "--quick", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert shown.err.splitlines()[-1] == "training 9 models: 30 of 30"
    assert "keras_likelihood demo" in (tmp_path / "demo_audit.html").read_text(
        encoding="utf-8"
    )
    stories = (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert stories.count("<section") == 4
    assert "MultiLasso" in stories and "data:image/png" in stories
    assert stories.count("<figure") == 5 and "with Conformal" in stories
    printed = " ".join(shown.out.split())
    assert "robust rho" in printed
    assert "demo.html" in printed and "with Conformal" in printed
    assert "of 300 labels are wrong. The audit suspects" in printed


def test_command_says_what_it_can_do(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([])
    assert stop.value.code == 2
    assert "demo" in capsys.readouterr().err
