"""The programs in `examples/` run, and their text says what they print."""

import pathlib
import re
import runpy

import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "examples"
GPU = "noisy_cifar10"
"""A recipe for images on a GPU. Without them it trains on digits."""
EVERY = sorted(p.stem for p in FOLDER.glob("*.py"))
PROGRAMS = [name for name in EVERY if name not in (GPU, "demo")]


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"(?<![\w.])\d+\.?\d*", text)]


CHECKS = {
    "conformal_sets": lambda n: abs(n[1] - n[0]) < 6 and abs(n[7] - 99) < 2,
    "csv_to_intervals": lambda n: n[-3] < 65 and 80 <= n[-2] <= 97,
    "demo": lambda n: n[2] < 0.1 and 78 <= n[-3] <= 97 and n[-2] >= 90,
    "scale_head": lambda n: 82 <= n[0] <= 97,
    "wrong_labels": lambda n: n[-1] >= 90,
}
"""What the texts of the programs claim about the printed numbers."""


def test_twelve_programs():
    assert len(PROGRAMS) == 12
    readme = (FOLDER / "README.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)\.py`", readme, re.M)) == PROGRAMS
    assert f"`{GPU}.py`" in readme and "`demo.py`" in readme


@pytest.mark.parametrize("name", [*PROGRAMS, "demo"])
def test_a_program_is_short_and_takes_no_options(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert 30 <= len(text.splitlines()) <= 90
    assert "argparse" not in text and "sys.argv" not in text
    assert text.startswith('"""\n') and "# %%" in text


@pytest.mark.few(0)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERY)
def test_a_program_runs(name, tmp_path, monkeypatch, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / f"{name}.py"))
    figures = pyplot.get_fignums()
    pyplot.close("all")
    printed = capsys.readouterr().out
    assert figures or name == GPU
    check = CHECKS.get(name)
    assert check is None or check(numbers(printed)), printed
