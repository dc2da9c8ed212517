"""The command line: fast start, one-line errors, Ctrl-C."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_likelihood import cli, outliers
from keras_likelihood.backend.extras import EXTRAS
from keras_likelihood.commands import detect
from keras_likelihood.commands import program as parsing
from tests.refusals import refusal


@pytest.fixture
def table(tmp_path):
    np.savez(tmp_path / "data.npz", X=np.eye(5))
    return tmp_path / "data.npz"


COMMAND = """
import os, sys, time, types
from keras_likelihood import cli
from keras_likelihood.backend.files import replacing
def run(args):
    {body}
place = "keras_likelihood.commands.detect"
sys.modules[place] = types.SimpleNamespace(run=run)
sys.argv = ["", "detect", cli.__file__, "--output=scores.csv", *{options}]
sys.exit(cli.main())
"""
"""A program whose command does something else, and needs no Keras."""


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (["--version"], 0, "."),
        (["--help"], 0, "exit status:"),
        (["audit", "--help"], 0, "--traceback"),
        (["detect"], 2, "required: data"),
        (["detect", "none.csv"], 2, "no such file"),
        (["fit", "a.csv", "--target", "prize"], 1, "Did you mean 'price'?"),
        (["audit", "--data", "a.csv", "--target", "x"], 1, "'x' of size"),
        (["predict", "none.keras", "a.csv"], 2, "none.keras: a file is"),
        (["checkup", "a.keras", "--data", "none.csv"], 2, "none.csv: a file"),
    ],
)
def test_answers_without_a_backend(tmp_path, arguments, status, words):
    (tmp_path / "a.csv").write_text("size,price\n1,2\n3,4\n")
    (tmp_path / "a.keras").write_text("model")
    # Importing Keras would fail.
    environment = {**os.environ, "KERAS_BACKEND": "none"}
    found = subprocess.run(
        [sys.executable, "-m", "keras_likelihood", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert found.returncode == status, found.stderr
    assert words in found.stdout + found.stderr
    assert len(found.stderr.splitlines()) == (status != 0)


def test_help_imports_no_backend_and_has_examples(capsys):
    """Lists the modules of a process that only prints the help."""
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
    for command in parsing.COMMANDS:
        assert f"\n  keras-likelihood {command}" in found.stdout
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        printed = capsys.readouterr().out
        assert f"example:\n  keras-likelihood {command}" in printed
        assert "--json" in printed and "--quiet" in printed


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "order",
    [
        "import keras_likelihood; import keras",
        "import keras; import keras_likelihood",
        "import keras_likelihood.losses; import keras",
        "from keras_likelihood import outliers; import keras",
    ],
)
def test_keras_knows_our_classes_in_any_order_of_imports(order):
    """A saved model loads even if the package was not used before."""
    name = "keras.saving.get_registered_object('keras_likelihood>Ensemble')"
    found = subprocess.run(
        [sys.executable, "-c", f"{order}; print({name})"],
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
    )
    assert "ensembles.ensemble.Ensemble" in found.stdout, found.stderr


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


@pytest.mark.parametrize(
    "module, error",
    [("numpy", "raise"), ("keras", "raise ImportError('hidden')")],
)
def test_ctrl_c_is_clean_from_the_first_moment(table, module, error):
    """The signal comes while a module is imported, which may hide it."""
    program = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            try: os.kill(os.getpid(), signal.SIGINT)\n"
        f"            except KeyboardInterrupt:\n"
        f"                {error}\n"
        "from keras_likelihood.cli import main\n"
        "sys.meta_path.insert(0, Finder())\n"
        f"sys.argv = ['keras-likelihood', 'detect', {str(table)!r}]\n"
        "sys.exit(main())"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    (line,) = found.stderr.splitlines()
    assert found.returncode == 130, line
    assert line.endswith(": interrupted; unfinished files were removed")


def test_a_closed_pipe_is_no_traceback():
    """As in `keras-likelihood ... | head -0`."""
    program = COMMAND.format(body="args.console.say('text')", options=[])
    reading, writing = os.pipe()
    os.close(reading)
    arguments = [sys.executable, "-c", program]
    found = subprocess.run(arguments, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert found.returncode == 1
    assert found.stderr == b""


def test_warnings_are_one_line(table, capsys, monkeypatch):
    import warnings

    def warn(options):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = parsing._show_warning
            warnings.warn("long\nwarning", stacklevel=1)
        return 0

    monkeypatch.setattr(detect, "run", warn)
    assert cli.main(["detect", str(table)]) == 0
    assert capsys.readouterr().err == "warning: long warning\n"


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("where", ["full", "closed"])
def test_an_output_that_cannot_be_written_is_one_line(options, where):
    body = "args.console.say('text' * 9999)"
    program = COMMAND.format(body=body, options=options)
    ending = "> /dev/full" if where == "full" else ">&-"
    found = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -c "$1" {ending}', sys.executable, program],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 1
    (line,) = found.stderr.splitlines()
    assert "Traceback" not in line
    assert "No space left" in line or "stdout is closed" in line


def test_log_lines_of_backends_are_dropped():
    body = "os.write(2, b'I0000 00 a.cc] x\\n'); print('ours', file=sys.stderr)"
    program = COMMAND.format(body=body, options=[])
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert found.stderr.splitlines() == ["ours"]


def test_sigterm_leaves_no_file(tmp_path):
    body = "with replacing('scores.csv'): print('writing', flush=True); "
    program = COMMAND.format(body=f"{body}time.sleep(60)", options=[])
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "writing\n"
    assert len(list(tmp_path.iterdir())) == 1
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "detect: interrupted; unfinished files were removed\n"
    assert not list(tmp_path.iterdir())


def test_advice_names_options_that_commands_have():
    words = "Pass `task='classification'` or `task='regression'`. "
    words += "Pass `from_logits=False` for these. Received: task=None"
    _, text = parsing.describe(ValueError(words))
    assert "--task classification or --task regression" in text
    assert "Pass --probabilities for these" in text
