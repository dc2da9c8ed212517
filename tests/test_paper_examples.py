"""The studies of the paper run, and the page shows what they recorded."""

import json
import os
import pathlib
import re
import runpy
import sys
import tempfile

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

FOLDER = pathlib.Path(__file__).parents[1] / "examples" / "paper"
FAST = (
    "nll_curves",
    "outliers_table",
    "robust_pca",
    "robust_regression",
    "space_time",
)
SLOW = (
    "adaptive_regularization",
    "layer_width",
    "robust_classification",
    "temperatures",
)
REAL_DATA = ("recalibration_tables",)
SLOW_REAL_DATA = ("regressors", "softplus_offset")
needs_data = pytest.mark.skipif(
    "KERAS_LIKELIHOOD_DATA" not in os.environ,
    reason="KERAS_LIKELIHOOD_DATA names no folder of real data",
)
SCRIPTS = [
    *FAST,
    *(pytest.param(name, marks=needs_data) for name in REAL_DATA),
    *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    *(
        pytest.param(name, marks=[pytest.mark.slow, needs_data])
        for name in SLOW_REAL_DATA
    ),
]


@pytest.fixture
def beside(monkeypatch):
    """Lets scripts import what lies beside them, and forgets it after."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in set(sys.modules) - before:
        path = getattr(sys.modules[name], "__file__", None)
        if path and pathlib.Path(path).parent == FOLDER:
            del sys.modules[name]


@pytest.fixture
def render(beside):
    import render

    return render


def run_quickly(name, folder, monkeypatch):
    """Runs a study as a smoke test; returns the path of its result."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--quick"])
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    (path,) = folder.glob(f"paper-*/{name}.json")
    return path


@pytest.mark.parametrize("name", SCRIPTS)
def test_study_records_what_the_page_needs(name, tmp_path, monkeypatch, render):
    path = run_quickly(name, tmp_path, monkeypatch)
    study = json.loads(path.read_text())
    assert study["command"] == f"python examples/paper/{name}.py --quick"
    assert study["seconds"] > 0 and study["versions"]["keras"]
    for picture in study["figures"].values():
        assert 0 < (path.parent / picture).stat().st_size < 150_000
    for table in study["data"]["tables"].values():
        for row in table["rows"].values():
            assert len(row) == len(table["columns"])
    section = section_of(render.render(path.parent), name, render)
    assert "Not run yet" not in section
    assert "{{" not in section and "[[" not in section


def section_of(page, name, render):
    sections = page.split("\n## ")[1:]
    return sections[render.STUDIES.index(name)]


def test_page_is_up_to_date(render):
    assert render.PAGE.read_text() == render.render()


def test_stale_page_is_noticed(render, tmp_path, monkeypatch):
    page = tmp_path / "paper.md"
    page.write_text(render.render() + "1.234\n")
    monkeypatch.setattr(render, "PAGE", page)
    monkeypatch.setattr(sys, "argv", ["render.py", "--check"])
    with pytest.raises(SystemExit, match="out of date"):
        render.main()


def test_paper_columns_stand_beside_ours(render):
    reported = {"t": {"columns": ["A"], "rows": {"x": [0.5], "z": [0.25]}}}
    table = {"columns": ["a"], "rows": {"x": [1.5], "y": [-1e-9]}, "paper": "t"}
    lines = render._table(table, reported).splitlines()
    assert lines[0] == "|  | a | *paper* A |"
    assert lines[2:] == [
        "| x | 1.500 | 0.500 |",
        "| y | 0.000 | – |",
        "| z | – | 0.250 |",
    ]


@pytest.mark.parametrize(
    "path", sorted((FOLDER / "prose").glob("*.md")), ids=lambda p: p.stem
)
def test_words_hold_no_results(path):
    words = re.sub(r"\{\{.*?\}\}|`[^`]*`", "", path.read_text())
    assert not re.findall(r"\d\.\d", words)
