"""The command line: quick answers, one line an error, Ctrl-C."""

import os
import subprocess
import sys

import numpy as np
import pytest

from keras_likelihood import cli, outliers
from keras_likelihood.backend.extras import EXTRAS
from keras_likelihood.commands import detect
from tests.refusals import refusal


@pytest.fixture
def table(tmp_path):
    np.savez(tmp_path / "data.npz", X=np.eye(5))
    return tmp_path / "data.npz"


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (["--version"], 0, "."),
        (["--help"], 0, "exit status:"),
        (["audit", "--help"], 0, "--traceback"),
        (["detect"], 2, "required: data"),
        (["detect", "none.csv"], 2, "no such file"),
    ],
)
def test_answers_without_a_backend(arguments, status, words):
    # Keras would fail to import.
    environment = {**os.environ, "KERAS_BACKEND": "none"}
    found = subprocess.run(
        [sys.executable, "-m", "keras_likelihood", *arguments],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert found.returncode == status, found.stderr
    assert words in found.stdout + found.stderr
    assert len(found.stderr.splitlines()) == (status != 0)


def test_help_imports_no_backend_and_has_examples(capsys):
    """Modules are listed by a process that ends with the help."""
    program = (
        "import runpy, sys\n"
        "sys.argv = ['keras-likelihood', '--help']\n"
        "try: runpy.run_module('keras_likelihood', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    loaded = found.stderr.split()
    assert "keras_likelihood.cli" in loaded
    slow = ("keras", "tensorflow", "jax", "torch", "scipy", "sklearn", "rich")
    assert not set(slow) & set(loaded)
    for command in cli.COMMANDS:
        assert f"\n  keras-likelihood {command}" in found.stdout
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        printed = capsys.readouterr().out
        assert f"example:\n  keras-likelihood {command}" in printed
        assert "--json" in printed and "--quiet" in printed


ORDERS = {
    "keras first": "import keras; import keras_likelihood",
    "keras later": "import keras_likelihood; import keras",
    "a part of it": "import keras_likelihood.losses; import keras",
    "another part": "from keras_likelihood import outliers; import keras",
}


@pytest.mark.parametrize("order", ORDERS)
def test_keras_knows_our_classes_in_any_order_of_imports(order):
    """A saved model loads, even if nothing of the package was used yet."""
    code = (
        f"{ORDERS[order]}; print("
        "keras.saving.get_registered_object('keras_likelihood>Ensemble'))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, "-m", "keras_likelihood"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "models.ensemble.Ensemble" in found.stdout


def test_a_missing_backend_is_one_line(table):
    environment = {**os.environ, "KERAS_BACKEND": "none"}
    found = subprocess.run(
        [sys.executable, "-m", "keras_likelihood", "detect", str(table)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert found.returncode == 1
    assert len(found.stderr.splitlines()) == 1
    assert "backend" in found.stderr


@pytest.mark.parametrize("module", ["sklearn", "torch", "matplotlib"])
def test_missing_extras_are_named(table, capsys, monkeypatch, module):
    def lost(options):
        raise ModuleNotFoundError(f"no {module}", name=module)

    monkeypatch.setattr(detect, "run", lost)
    line = refusal(capsys, "detect", table, statuses=(1,))
    assert f"needs {module}" in line
    assert f"keras-likelihood[{EXTRAS[module]}]" in line


def test_a_table_in_place_of_an_archive_is_told_apart(tmp_path, capsys):
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    line = refusal(capsys, "audit", "--data", tmp_path / "data.csv")
    assert "must be a .npz file, as `numpy.savez(" in line


def test_faults_of_our_own_can_be_found(table, capsys, monkeypatch):
    def broken(options):
        raise KeyError("a\nfault")

    monkeypatch.setattr(detect, "run", broken)
    assert cli.main(["detect", str(table)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "unexpected KeyError, see --traceback" in line
    with pytest.raises(KeyError):
        cli.main(["detect", str(table), "--traceback"])


def test_text_from_files_cannot_leave_its_line(table, capsys, monkeypatch):
    def refuse(options):
        raise ValueError("first\nsecond\x1b[2J" + "x" * 10_000)

    monkeypatch.setattr(detect, "run", refuse)
    line = refusal(capsys, "detect", table)
    assert "first second?[2J" in line
    assert len(line) < 700


def test_ctrl_c_is_one_line_and_no_file(table, capsys, monkeypatch):
    def interrupted(detector):
        raise KeyboardInterrupt

    monkeypatch.setattr(outliers.PCAScale, "_check_options", interrupted)
    assert cli.main(["detect", str(table)]) == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("detect: interrupted")
    assert [path.name for path in table.parent.iterdir()] == ["data.npz"]


def test_ctrl_c_while_writing_leaves_no_half_file(table, capsys, monkeypatch):
    quick = outliers.PCAScale(steps=1, batch_size=4)
    monkeypatch.setattr(outliers, "PCAScale", lambda **options: quick)

    def interrupted(path, detector):
        path.write_text("row,sco")
        raise KeyboardInterrupt

    monkeypatch.setattr(detect, "_write_scores", interrupted)
    scores = table.with_suffix(".scores.csv")
    scores.write_text("old")
    assert cli.main(["detect", str(table), "--force"]) == 130
    assert scores.read_text() == "old"
    assert len(list(table.parent.iterdir())) == 2


def test_a_closed_pipe_is_no_traceback(table):
    """As of `keras-likelihood ... | head -0`."""
    program = (
        "import os, sys; from keras_likelihood import cli;"
        "from keras_likelihood.commands import detect;"
        "detect.run = lambda args: args.console.say('text') or 0;"
        f"sys.exit(cli.main(['detect', {str(table)!r}]))"
    )
    reading, writing = os.pipe()
    os.close(reading)
    # Nothing of Keras is needed to print.
    arguments = [sys.executable, "-c", program, "-m", "keras_likelihood"]
    found = subprocess.run(arguments, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert found.returncode == 1
    assert found.stderr == b""


def test_warnings_are_one_line(table, capsys, monkeypatch):
    import warnings

    def warn(options):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = cli._show_warning
            warnings.warn("long\nwarning", stacklevel=1)
        return 0

    monkeypatch.setattr(detect, "run", warn)
    assert cli.main(["detect", str(table)]) == 0
    assert capsys.readouterr().err == "warning: long warning\n"


def test_the_demo_replaces_its_own_files_only(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    from keras_likelihood import demo
    from keras_likelihood.commands import demo_page
    from keras_likelihood.demo.figure import SOFTWARE
    from keras_likelihood.demo.page_title import TITLE

    drawn = []
    monkeypatch.setattr(demo, "run", lambda *paths, **_: drawn.extend(paths))
    monkeypatch.setattr(demo_page, "write_stories", lambda *_: None)
    figure, page = tmp_path / "demo.png", tmp_path / "demo_audit.html"
    for path in (figure, page):
        path.write_bytes(b"precious")
        assert "--force" in refusal(capsys, "demo", "--output", tmp_path)
        assert path.read_bytes() == b"precious"
        figure.write_bytes(SOFTWARE.encode())
    page.write_text(f"<title>{TITLE}</title>")
    assert drawn == []
    cli.main(["demo", "--output", str(tmp_path)])
    assert drawn == [figure, page]
