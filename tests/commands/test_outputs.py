"""Output files are complete or absent, and never overwrite other files."""

import errno
import os

import pytest

from keras_likelihood.backend.files import replacing
from keras_likelihood.commands.files import CommandError, check_outputs

pytestmark = pytest.mark.one_backend


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_has_the_usual_rights(tmp_path):
    (tmp_path / "usual").write_text("")
    with replacing(tmp_path / "new") as temporary:
        temporary.write_text("")
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()]
)
def test_a_failed_write_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(type(error)), replacing(path) as temporary:
        temporary.write_text("half of the ne")
        raise error
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "file")
    with replacing(tmp_path / "link") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "deep" / "file").read_text() == "new"


def test_a_full_disk_leaves_the_old_file(tmp_path):
    """The kernel refuses to write more than a limit."""
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
        with pytest.raises(OSError) as raised, replacing(path) as temporary:
            temporary.write_bytes(bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert raised.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file.bin"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input").write_text("precious")
    (tmp_path / "old").write_text("precious")
    (tmp_path / "deep").mkdir()
    os.symlink("input", "soft")
    os.link("input", "hard")
    os.symlink("nowhere", "dangling")
    return tmp_path


@pytest.mark.parametrize(
    "path, words",
    [
        ("input", "must not be the file of data"),
        ("./deep/../input", "must not be the file of data"),
        ("soft", "must not be the file of data"),
        ("hard", "must not be the file of data"),
        ("other", "must not be the file of --save"),
        ("deep", "must name a file"),
        ("deep/", "must name a file"),
        ("new/", "must name a file"),
        ("", "must name a file"),
        (os.devnull, "must name a file"),
        ("none/file", "no such folder"),
        ("old/file", "cannot be written"),
        ("n" * 300, "cannot be written"),
    ],
)
def test_outputs_are_refused_even_if_forced(folder, path, words):
    before = names(folder)
    with pytest.raises(CommandError, match=words):
        check_outputs(
            {"--save": "other", "--output": path}, {"data": "input"}, True
        )
    assert names(folder) == before


@pytest.mark.parametrize("path", ["old", "dangling"])
def test_existing_outputs_need_force(folder, path):
    with pytest.raises(CommandError, match="--force replaces it"):
        check_outputs({"--output": path}, {"data": "input"}, False)
    check_outputs({"--output": path}, {"data": "input"}, True)
    check_outputs({"--output": "new", "--save": None}, {"--test": None}, False)
    assert not os.path.exists("new")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="root may write anywhere",
)
def test_folders_without_rights_are_refused(folder):
    (folder / "deep").chmod(0o500)
    with pytest.raises(CommandError, match="cannot be written to"):
        check_outputs({"--output": "deep/file"}, {}, False)
