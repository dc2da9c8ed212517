"""A part of the corpus of bad files. `benchmarks/bad_files.py` runs all."""

import pathlib
import sys

import pytest

bad_files = pytest.importorskip("bad_files")


@pytest.mark.few(0)
@pytest.mark.filterwarnings("ignore:.* does not end with a line break")
def test_bad_files_are_refused_in_one_line(capsys):
    rows = bad_files.run(23)
    everything = rows[-1]
    assert everything["tried"] >= 30
    faults = ("traceback", "other fault", "silently wrong")
    assert not any(everything[name] for name in faults), capsys.readouterr().out


@pytest.mark.few(0)
def test_the_corpus_is_large_and_always_the_same():
    cases = bad_files.all_cases()
    assert len(cases) >= 500
    bad_files.good_files.cache_clear()
    again = bad_files.all_cases()
    for one, other in zip(cases, again, strict=True):
        assert (one.kind, one.command) == (other.kind, other.command)
        if one.kind != "wrong model":
            assert one.files == other.files


@pytest.mark.few(0)
def test_a_command_that_fails_is_caught(monkeypatch):
    """The check detects tracebacks, modified files and wrong exit statuses."""
    case = bad_files.all_cases()[0]
    cases = {
        "traceback": lambda arguments: {}["no such key"],
        "exit status 0": lambda arguments: 0,
        "touched": _touch,
        "2 lines": _two_lines,
    }
    for words, broken in cases.items():
        monkeypatch.setattr(bad_files.cli, "main", broken)
        verdict, text = bad_files.judge(case, {})
        assert verdict in ("traceback", "other fault")
        assert words in f"{verdict} {text}"


def _touch(arguments):
    print("audit: refused", file=sys.stderr)
    pathlib.Path("val.npz").write_bytes(b"")
    return 2


def _two_lines(arguments):
    print("audit: refused\nand more", file=sys.stderr)
    return 2
