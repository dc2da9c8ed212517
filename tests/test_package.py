"""First contact of a user: the import, the README, the command."""

import importlib.metadata
import pathlib
import re
import subprocess
import sys
import tomllib

import keras
import pytest

import keras_likelihood as kl
from keras_likelihood import cli
from keras_likelihood.after_keras import IN_FILES
from keras_likelihood.commands.program import build_parser

ROOT = pathlib.Path(__file__).parents[1]
HEAVY = ("matplotlib", "rich", "scipy", "sklearn", "tensorflow_probability")


@pytest.mark.few(0)
def test_import_is_light():
    """No plotting, no SciPy, and no backend that was not selected."""
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


README = (ROOT / "README.md").read_text()
CODE = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)


def readme_blocks(language):
    return [code for kind, code in CODE.findall(README) if kind == language]


def run_alone(code, folder):
    """Runs a program in a new process and an empty folder."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readme_is_short():
    """At most 700 words, without code and addresses."""
    prose = re.sub(
        r"^\[.*\]: .*$|<!--.*?-->", "", CODE.sub("", README), flags=re.M
    )
    assert len(prose.split()) <= 700


def repository():
    """The address in `pyproject.toml` with which all others begin."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["urls"]["Repository"]


def test_project_says_where_to_report():
    assert f"repository-code: {repository()}\n" in (
        (ROOT / "CITATION.cff").read_text()
    )
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md"):
        assert f"`{name}`" in guide and (ROOT / name).exists()
    templates = ROOT / ".github" / "ISSUE_TEMPLATE"
    if templates.exists():  # a source distribution has none
        assert len(list(templates.glob("*.md"))) == 3


def test_readme_links_work_on_pypi():
    """Every link is absolute and leads to a file of the repository."""
    defined = dict(re.findall(r"^\[(.+)\]: (\S+)$", README, flags=re.M))
    used = re.findall(r"\]\[([^\]]+)\]", README)
    assert {" ".join(name.split()) for name in used} == set(defined)
    direct = re.findall(r"\]\(([^)]+)\)", README)
    for address in [*defined.values(), *direct]:
        assert address.startswith("https://"), address
    for address in defined.values():
        place = address.removeprefix(repository()).removeprefix("/blob/main/")
        raw = repository().replace("github.com", "raw.githubusercontent.com")
        place = place.removeprefix(f"{raw}/main/")
        assert not place.startswith("https:"), address
        assert (ROOT / place).exists(), place


@pytest.mark.pages
def test_robust_curve_of_the_readme(tmp_path):
    """The block runs as pasted and prints what it and the sentence below say.

    Another seed changes the last digit.
    """
    (block,) = [b for b in readme_blocks("python") if "RobustRhoHead" in b]
    printed = run_alone(block + SQUARED_ERROR, tmp_path).split()
    robust, squared = map(float, re.findall(r"about (0\.\d+)", README))
    assert float(printed[-2]) == pytest.approx(robust, abs=0.011)
    assert float(printed[-1]) == pytest.approx(squared, abs=0.1)


SQUARED_ERROR = """
keras.utils.set_random_seed(0)
layers = [keras.layers.Dense(64, activation="tanh") for _ in range(2)]
plain = keras.Sequential([*layers, keras.layers.Dense(1)])
plain.compile(keras.optimizers.Adam(0.01), "mse")
plain.fit(x, y, batch_size=100, epochs=100, verbose=0)
print(np.abs(plain.predict(x, verbose=0) - truth).mean())
"""


@pytest.mark.pages
def test_table_of_the_readme(tmp_path):
    blocks = [b for b in readme_blocks("python") if "RobustRhoHead" not in b]
    (block,) = blocks
    (tmp_path / "examples").mkdir()
    source = ROOT / "examples" / "diabetes.csv"
    (tmp_path / "examples" / "diabetes.csv").write_bytes(source.read_bytes())
    numbers = re.findall(r"[\d.]+", run_alone(block, tmp_path))
    error, _, inside = map(float, numbers)
    assert error < 60  # the standard deviation of the target is 77
    assert 82 <= inside <= 97


def test_shell_lines_of_the_readme_exist():
    lines = "".join(readme_blocks("sh")).splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    makefile = (ROOT / "Makefile").read_text()
    for line in lines:
        program, *words = line.partition("#")[0].split()
        if program == "make":
            assert f"\n{words[0]}:" in makefile, line
        elif program == "pip":
            asked = re.search(r"\[(.*)\]", line)[1].split(",")
            assert set(asked) <= set(extras), line
        else:
            assert program == "keras-likelihood"
            build_parser().parse_args(words)


def test_command_says_what_it_can_do(capsys):
    assert cli.main([]) == 2
    assert "keras-likelihood detect" in capsys.readouterr().err


def test_saved_files_need_no_more_than_the_import():
    for name in kl.__all__:
        getattr(kl, name)
    rooms = {"outliers", *(name.split(".")[0] for name in IN_FILES)}
    for name, found in keras.saving.get_custom_objects().items():
        if name.startswith("keras_likelihood>"):
            # Detectors have their own file format.
            assert found.__module__.split(".")[1] in rooms, name
