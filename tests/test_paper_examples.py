"""The studies of the paper run, and the page shows the recorded results."""

import io
import json
import pathlib
import runpy
import shutil
import sys
import tempfile

import keras
import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.pages

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

FOLDER = pathlib.Path(__file__).parents[1] / "benchmarks" / "paper"
SCRIPTS = (
    "adaptive_regularization",
    "layer_width",
    "literal_classifiers",
    "literal_outliers",
    "literal_recalibration",
    "literal_regressors",
    "literal_vae",
    "nll_curves",
    "normalised_features",
    "outliers_table",
    "recalibration_tables",
    "regressors",
    "robust_classification",
    "robust_pca",
    "robust_regression",
    "softplus_offset",
    "space_time",
    "sparse_weights",
    "temperatures",
    "temperatures_cifar10",
    "vae",
)


@pytest.fixture
def made_up_data(tmp_path, monkeypatch):
    """A data folder like the real one, filled with random numbers."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data"
    for name in ("regression", "logits", "images"):
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
    sheet = jpeg(rng.integers(256, size=(15 * 32, 16 * 32, 3)))
    labels = np.arange(240) % 10
    np.savez(
        folder / "images" / "cifar10_jpeg90.npz",
        jpeg=sheet,
        lens=[len(sheet)],
        grid=[15, 16, 32, 32],
        y_train=labels[:200],
        y_test=labels[200:],
    )
    faces = [jpeg(rng.integers(256, size=(109, 89, 3))) for _ in range(80)]
    np.savez(
        folder / "images" / "celeba10k_89x109_jpeg.npz",
        jpeg=np.concatenate(faces),
        lens=[len(face) for face in faces],
    )
    monkeypatch.setenv("KERAS_LIKELIHOOD_DATA", str(folder))


def jpeg(pixels):
    """The bytes of an image file, as an array."""
    file = io.BytesIO()
    Image.fromarray(pixels.astype("uint8")).save(file, format="jpeg")
    return np.frombuffer(file.getvalue(), "uint8")


def run_quickly(name, folder, monkeypatch):
    """Runs a study as a smoke test; returns the path of its result."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--quick"])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    (path,) = folder.glob(f"paper-*/{name}.json")
    return path


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.usefixtures("made_up_data")
def test_study_records_what_the_page_needs(name, tmp_path, monkeypatch, render):
    path = run_quickly(name, tmp_path, monkeypatch)
    study = json.loads(path.read_text())
    assert study["command"] == f"python benchmarks/paper/{name}.py --quick"
    assert study["seconds"] > 0 and study["versions"]["keras"]
    for picture in study["figures"].values():
        assert 0 < (path.parent / picture).stat().st_size < 150_000
    for table in study["data"]["tables"].values():
        for row in table["rows"].values():
            assert len(row) == len(table["columns"])
    if name in render.BESIDE:
        return
    for other in render.BESIDE:
        shutil.copy(render.FOLDER / f"{other}.json", path.parent)
    pages = render.render(path.parent)
    section = section_of(pages[render.PAGE], name, render)
    assert "Not run yet" not in section
    # The other studies are not there, so it is the only section of details.
    details = pages[render.DETAILS]
    for text in (section, details):
        assert "{{" not in text and "[[" not in text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_sets_of_tensorflow_datasets(beside, monkeypatch):
    """Without local files, with the names and features of that package."""
    pytest.importorskip("tensorflow")
    tfds = pytest.importorskip("tensorflow_datasets")
    import datasets

    monkeypatch.delenv("KERAS_LIKELIHOOD_DATA", raising=False)
    with tfds.testing.mock_data(num_examples=20):
        (x, y), _ = datasets.cifar10()
        assert x.shape == (20, 32, 32, 3) and x.dtype == "uint8"
        assert y.shape == (20,)
        face = next(iter(datasets.celeba(3)))
        assert face.shape == (218, 178, 3)
        (x, y), (x_test, _) = datasets.regression("wine_red", seed=0)
        assert x.shape == (16, 11) and len(x_test) == 4
        assert y.std() == pytest.approx(1, rel=1e-3)
    with pytest.raises(SystemExit, match="KERAS_LIKELIHOOD_DATA"):
        datasets.regression("soil", seed=0)


def section_of(page, name, render):
    sections = page.split("\n## ")[1:]
    return sections[render.STUDIES.index(name)]


def test_pages_are_up_to_date(render):
    for path, text in render.render().items():
        assert path.read_text() == text, path.name


def test_stale_page_is_noticed(render, tmp_path, monkeypatch):
    page = tmp_path / "paper.md"
    page.write_text(render.PAGE.read_text() + "1.234\n")
    monkeypatch.setattr(render, "PAGE", page)
    monkeypatch.setattr(sys, "argv", ["render.py", "--check"])
    with pytest.raises(SystemExit, match="out of date"):
        render.main()


def test_networks_side_by_side_share_nothing(beside, rng):
    import literal

    layer = literal.Dense(2, relu=True)
    x = rng.normal(size=(2, 5, 3)).astype("float32")
    before = keras.ops.convert_to_numpy(layer(x))
    x[1] += 1
    after = keras.ops.convert_to_numpy(layer(x))
    np.testing.assert_array_equal(before[0], after[0])
    assert not np.allclose(before[1], after[1])
    kernel = keras.ops.convert_to_numpy(layer.kernel)
    expected = np.maximum(x[1] @ kernel[1], 0)
    np.testing.assert_allclose(after[1], expected, atol=1e-5)
