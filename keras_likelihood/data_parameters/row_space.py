"""The space of a new table on the disk."""

import errno
import os

from keras_likelihood.data_parameters.row_header import (
    HEADER_BYTES,
    RowHeader,
)

# File systems that write where they reserved. Others (btrfs, ZFS, APFS, those
# of a network) may need new space for every write, and a store through a memory
# map that finds none kills the process.
_IN_PLACE = {"ext2", "ext3", "ext4", "xfs", "tmpfs"}


def writes_in_place(path: str) -> bool:
    """Whether space reserved for the file at `path` stays reserved."""
    if not hasattr(os, "posix_fallocate"):
        return False
    try:
        with open("/proc/self/mountinfo") as mounts:
            lines = [line.split() for line in mounts]
    except OSError:
        return False
    path = os.path.realpath(path)
    best = ("", "")
    for fields in lines:
        point = fields[4].encode().decode("unicode_escape")
        kind = fields[fields.index("-") + 1]
        inside = point == "/" or path == point or path.startswith(point + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1] in _IN_PLACE


def reserve(descriptor: int, start: int, length: int, path: str):
    """Makes the file reach `start + length` and reserves what can be.

    Raises:
        OSError: if the disk has no space; the file may have grown by then.
    """
    try:
        if writes_in_place(path):
            os.posix_fallocate(descriptor, start, length)
        elif os.fstat(descriptor).st_size < start + length:
            os.ftruncate(descriptor, start + length)
    except OSError as error:
        raise explained(error, path) from error


def explained(error: OSError, path: str) -> OSError:
    """The error, saying that all rows written before are safe."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    advice = "free some space" if full else "mend this"
    return OSError(
        error.errno,
        f"{path} cannot be written ({error.strerror}). Every batch "
        f"before this one is kept; {advice} and continue",
    )


def create(path: str, header: RowHeader, fill=None):
    """Makes a table, which has its name only when it is complete.

    Args:
        path: where no file is.
        header: the `RowHeader` of the table.
        fill: called as `fill(write)` to put in rows that are not zero, with
            `write(first, checked)` for those from number `first` on.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = f"{path}.{header.identity[:8]}.partial"
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        try:
            reserve(descriptor, 0, header.journal_start, path)
            write_all(descriptor, [header.pack()], 0)
            if fill is not None:
                fill(
                    lambda first, checked: write_all(
                        descriptor,
                        [checked],
                        HEADER_BYTES + first * header.stride,
                    )
                )
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _name(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def _name(partial, path):
    try:
        # A link never takes the place of a file that came meanwhile.
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(path):
            raise
        os.rename(partial, path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        # The name is on the disk too.
        os.fsync(folder)
    finally:
        os.close(folder)


def write_all(descriptor: int, parts: list, offset: int):
    """Writes the pieces one after the other from `offset` on."""
    views = [memoryview(part).cast("B") for part in parts]
    while views:
        written = os.pwritev(descriptor, views, offset)
        offset += written
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if views:
            views[0] = views[0][written:]
