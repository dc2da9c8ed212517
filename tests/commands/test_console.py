"""Output of the commands: plain in pipes, styled, or one JSON document."""

import io
import json
import sys

import numpy as np
import pytest

from keras_likelihood import cli
from keras_likelihood.commands import detect
from keras_likelihood.commands.console import Console, printable
from keras_likelihood.commands.files import CommandError, UsageError

pytestmark = pytest.mark.one_backend


def printed_to(monkeypatch, *, is_terminal):
    """Output of a console in a terminal or a pipe."""
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "60")
    console = Console("detect")
    console.table(["name", "NLL"], [["a[b]\x1b", "1.5"], ["b", "12"]], best=0)
    console.say("a [bold]long[/bold] line " + "of words " * 20)
    return stream.getvalue()


@pytest.mark.parametrize("no_color", [True, False])
def test_terminals_have_colours_and_pipes_are_plain(monkeypatch, no_color):
    monkeypatch.setenv("NO_COLOR", "1" if no_color else "")
    terminal = printed_to(monkeypatch, is_terminal=True)
    assert ("\x1b[1;32m" in terminal) == (not no_color)
    assert "best" in terminal
    assert len(terminal.splitlines()) > 6
    pipe = printed_to(monkeypatch, is_terminal=False)
    lines = pipe.splitlines()
    assert "\x1b" not in pipe and len(lines) == 4
    assert lines[0].split() == ["name", "NLL"]
    assert lines[1].split() == ["a[b]?", "1.5", "<", "best"]
    assert lines[3].startswith("a [bold]long[/bold]")
    assert lines[1].index("1.5") == lines[2].index("12") - 1


def test_names_survive_other_encodings(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert printable("naïve") == "na?ve"


def test_one_json_document_and_quiet(tmp_path, capsys, monkeypatch):
    np.savez(tmp_path / "data.npz", X=np.eye(5))

    def print_all(args):
        args.console.say("text")
        args.console.table(["a"], [["1"]])
        args.console.result(value=np.float32(1), nothing=float("nan"))
        args.console.next_step("go on", "there")
        return 0

    monkeypatch.setattr(detect, "run", print_all)
    call = ["detect", str(tmp_path / "data.npz")]
    assert cli.main([*call, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "command": "detect",
        "value": 1.0,
        "nothing": None,
        "next_step": "go on",
        "next_command": "there",
    }
    assert cli.main([*call, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "error, status",
    [
        (CommandError("bad data"), 1),
        (UsageError("bad option"), 2),
        (ValueError("bad value"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_statuses(tmp_path, capsys, monkeypatch, error, status):
    def fail(args):
        raise error

    monkeypatch.setattr(detect, "run", fail)
    np.savez(tmp_path / "data.npz", X=np.eye(5))
    assert cli.main(["detect", str(tmp_path / "data.npz"), "--json"]) == status
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told["status"] == status
    assert printed.err == told["error"] + "\n"


def test_progress_is_drawn_to_its_end(monkeypatch):
    """One updated line in a terminal, about ten lines elsewhere."""
    for is_terminal in (True, False):
        stream = io.StringIO()
        stream.isatty = lambda value=is_terminal: value
        monkeypatch.setattr(sys, "stderr", stream)
        with Console("audit").progress("at work", 0) as on_step:
            for done in range(1, 31):
                on_step(done, 30)
        assert "at work: 30 of 30" in stream.getvalue()
        lines = stream.getvalue().replace("\r", "").splitlines()
        assert len(lines) == 1 if is_terminal else 8 < len(lines) < 15
