"""Files that were damaged, or never were what they claim."""

import io
import os
import pathlib
import struct
import zipfile

import numpy as np

from bad_file_cases.good import READERS, Case, good_files, rezip


def damaged():
    """Every good file cut, flipped, blanked, missing and misnamed."""
    random = np.random.default_rng(1)
    for name, content in good_files().items():
        for command in READERS.get(name, ()):
            archive = not name.endswith("csv")
            size = len(content)
            cuts = [1, 3, 22, size // 4, size // 2, 3 * size // 4, size - 1]
            for cut in cuts:
                # A cut .csv may end at a row's end, and then is a table.
                yield Case(
                    "truncated",
                    command,
                    {name: content[:cut]},
                    (1, 2) if archive else (0, 1, 2),
                )
            for _ in range(24):
                flipped = bytearray(content)
                flipped[random.integers(size)] ^= 1 << random.integers(8)
                yield Case(
                    "bit-flipped",
                    command,
                    {name: bytes(flipped)},
                    (0, 1, 2),
                    same=archive,
                )
            for _ in range(4):
                at = int(random.integers(size - 32))
                blank = content[:at] + bytes(32) + content[at + 32 :]
                files = {name: blank}
                yield Case("blanked", command, files, (0, 1, 2), same=archive)
            for blob in (b"", b"\n", bytes(1000), random.bytes(1000)):
                yield Case("empty or noise", command, {name: blob})
            yield Case("missing", command, {name: None})
            yield Case(
                "directory", command, {name: None}, prepare=make_folder(name)
            )
            yield Case(
                "looped link", command, {name: None}, prepare=_loop(name)
            )
            yield Case("pipe", command, {name: None}, prepare=_pipe(name))
            yield from misnamed(name, command)


def misnamed(name, command):
    """Contents of one kind under the name of another."""
    kinds = {**good_files(), "array.npy": _npy(np.zeros((4, 3)))}
    kinds["page.html"] = b"<html><body>404</body></html>\n"
    kinds["old.h5"] = b"\x89HDF\r\n\x1a\n" + bytes(64)
    kinds["data.gz"] = b"\x1f\x8b\x08\x00" + bytes(30)
    for other, content in kinds.items():
        if pathlib.Path(other).suffix != pathlib.Path(name).suffix:
            yield Case("misnamed", command, {name: content})


def _npy(array, **options):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def make_folder(name):
    return lambda: os.mkdir(name)


def _loop(name):
    return lambda: os.symlink(name, name)


def _pipe(name):
    return lambda: os.mkfifo(name)


def header(text: str, version=1, claimed=None) -> bytes:
    """An .npy with any header."""
    body = text.encode("latin1") + b"\n"
    size = len(body) if claimed is None else claimed
    packed = struct.pack("<H" if version == 1 else "<I", size)
    return b"\x93NUMPY" + bytes([version, 0]) + packed + body + bytes(96)


def false_headers():
    """Arrays and archives that claim to be what they are not."""
    plain = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }"
    texts = [
        plain % ("<f8", "(1000000000000000,)"),
        plain % ("<f8", "(100000000, 3)"),
        plain % ("<f8", "(-4, 3)"),
        plain % ("<f8", "(0, 1000000000000000)"),
        plain % ("<f8", "(1000000000000000, 0)"),
        plain % ("<f8", "(4, 'x')"),
        plain % ("|V1000000000000", "(1,)"),
        plain % ("<q9", "(4, 3)"),
        plain % ("|O", "(4, 3)"),
        "{'shape': (4, 3)}",
        "(" * 5000,
        "__import__('os').getcwd()",
        "",
    ]
    entries = [header(text) for text in texts]
    entries += [
        header(plain % ("<f8", "(4, 3)"), version=2, claimed=2**32 - 1),
        header(plain % ("<f8", "(4, 3)"), version=1, claimed=65535),
        header(plain % ("<f8", "(4, 3)"), version=9),
        b"\x93NUMPY",
        b"\x80\x04]q\x00.",
        b"",
    ]
    places = {"val.npz": "x", "logits.npz": "logits", "table.npz": "X"}
    for name, key in places.items():
        for entry in entries:
            content = rezip(good_files()[name], **{f"{key}__npy": entry})
            yield Case("false header", READERS[name][0], {name: content})
    for name in (*places, "model.keras"):
        for content in false_entries(good_files()[name]):
            # Some of what is false there does no harm.
            files, statuses = {name: content}, (0, 1, 2)
            command = READERS[name][0]
            yield Case("false zip entry", command, files, statuses, same=True)


def false_entries(content):
    """The archive with its directory of entries changed, entry by entry."""
    start = content.index(b"PK\x01\x02")
    fields = {8: "<H", 10: "<H", 20: "<I", 24: "<I", 42: "<I"}
    values = {8: 1, 10: 14, 20: 2**31, 24: 2**32 - 2, 42: 2**31}
    for at, form in fields.items():
        changed = bytearray(content)
        struct.pack_into(form, changed, start + at, values[at])
        yield bytes(changed)
    made = io.BytesIO(content)
    with zipfile.ZipFile(made, "a") as archive:
        first = archive.namelist()[0]
        archive.fp.seek(archive.start_dir)
        archive.filelist.append(archive.getinfo(first))
        archive._didModify = True
    yield made.getvalue()
