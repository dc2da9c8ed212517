"""The studies of the paper run, each for a few steps."""

import json
import pathlib
import runpy
import sys
import tempfile

import numpy as np
import pytest

pytestmark = pytest.mark.pages


FOLDER = pathlib.Path(__file__).parents[1] / "benchmarks" / "paper"
OTHERS = "get_data recipe results".split()
OTHERS += ["auto_encoders", "corrupted_images"]  # These need a GPU.
SCRIPTS = sorted(
    path.stem for path in FOLDER.glob("*.py") if path.stem not in OTHERS
)


@pytest.fixture
def made_up_data(tmp_path, monkeypatch):
    """A data folder like the real one, filled with random numbers."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data"
    for name in ("regression", "logits"):
        (folder / name).mkdir(parents=True)
    for name in ("soil", "cpu_machine"):
        x = rng.normal(size=(120, 4))
        y = x[:, 0] + 0.1 * rng.normal(size=120)
        np.savez(folder / "regression" / f"{name}.npz", X=x, y=y)
    logits = {}
    for part in ("val", "test"):
        logits[f"logits_{part}"] = rng.normal(size=(80, 10)).astype("float32")
        logits[f"features_{part}"] = rng.normal(size=(80, 6)).astype("float16")
        logits[f"y_{part}"] = (np.arange(80) % 10).astype("uint8")
    logits |= {"W": np.ones((10, 6), "float32"), "b": np.ones(10, "float32")}
    for name in ("cifar10_resnet20", "cifar100_resnet50"):
        np.savez(folder / "logits" / f"{name}.npz", **logits)
    monkeypatch.setenv("KERAS_LIKELIHOOD_DATA", str(folder))


def run_quickly(name, folder, monkeypatch):
    """Runs a study as a smoke test; returns the path of its result."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--quick"])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    (path,) = folder.glob(f"paper-*/{name}.json")
    return path


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.usefixtures("made_up_data")
def test_study_records_its_results(name, tmp_path, monkeypatch):
    study = json.loads(
        (path := run_quickly(name, tmp_path, monkeypatch)).read_text()
    )
    assert study["command"] == f"python benchmarks/paper/{name}.py --quick"
    assert study["seconds"] > 0 and study["versions"]["keras"]
    for picture in study["figures"].values():
        assert 0 < (path.parent / picture).stat().st_size < 150_000
    for table in study["data"]["tables"].values():
        for row in table["rows"].values():
            assert len(row) == len(table["columns"])
