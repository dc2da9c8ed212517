"""One writer at a time."""

import contextlib
import datetime
import errno
import gc
import json
import os
import socket
import weakref

from keras_likelihood.data_parameters.row_header import (
    HEADER_BYTES,
    HOLDER_START,
)

try:
    import fcntl
except ImportError:  # Not on Windows.
    fcntl = None  # type: ignore[assignment]


class WriterLock:
    """The right to write a table, held until `release` or death.

    The lock is the operating system's (`flock`), which ends it with the
    process, however that ends. The name of the holder in the header is for
    messages alone.

    Args:
        path: of the table.
        shared: for those who need the table to rest, such as a copy; they
            keep writers out and not each other. Defaults to False.
    """

    def __init__(self, path: str, *, shared: bool = False):
        self.path = path
        self.process = os.getpid()
        self._descriptor: int | None = os.open(
            path, os.O_RDONLY if shared else os.O_RDWR
        )
        try:
            self._acquire(shared)
        except BaseException:
            os.close(self._descriptor)
            self._descriptor = None
            raise
        if not shared:
            self._sign()
        _HELD.add(self)

    def _acquire(self, shared):
        if fcntl is None:
            return
        kind = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        try:
            fcntl.flock(self._descriptor, kind)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            # A model that was made before in this process may be garbage.
            gc.collect()
            try:
                fcntl.flock(self._descriptor, kind)
            except OSError:
                raise self._refusal() from None

    def _refusal(self):
        holder = read_holder(self._descriptor)
        who = "another user of it"
        if holder:
            who = "process {process} on {host}, since {since}".format(**holder)
            if holder["process"] == self.process:
                who += " (this process: call `close` on the DataParameter)"
        return BlockingIOError(
            errno.EAGAIN,
            f"{self.path} has a writer already, and a table has one at a time. "
            f"Reading it with `values()` is possible. Received: {who}",
        )

    def _sign(self):
        holder = {
            "process": self.process,
            "host": socket.gethostname(),
            "since": datetime.datetime.now().isoformat(" ", "seconds"),
        }
        self._write_holder(json.dumps(holder).encode())

    def _write_holder(self, text):
        room = HEADER_BYTES - HOLDER_START
        # For messages alone: a full disk must not keep the table closed.
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, text.ljust(room, b"\0"), HOLDER_START)
        self._signed = bool(text)

    _signed = False

    @property
    def held(self) -> bool:
        """Whether this process holds it; a forked child does not."""
        return self._descriptor is not None and self.process == os.getpid()

    def release(self):
        """Gives the right up."""
        if self._descriptor is None:
            return
        descriptor = self._descriptor
        try:
            if self._signed and self.held:
                self._write_holder(b"")
        finally:
            self._descriptor = None
            os.close(descriptor)

    def __del__(self):
        if getattr(self, "_descriptor", None) is not None:
            self.release()

    def _forget(self):
        # The child's copy of the descriptor would outlive the parent's lock.
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def read_holder(descriptor: int) -> dict | None:
    """Who last signed the table as its writer and has not signed off."""
    text = os.pread(descriptor, HEADER_BYTES - HOLDER_START, HOLDER_START)
    try:
        holder = json.loads(text.rstrip(b"\0"))
        return {k: holder[k] for k in ("process", "host", "since")}
    except (ValueError, KeyError, TypeError):
        return None


_HELD: weakref.WeakSet = weakref.WeakSet()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        after_in_child=lambda: [lock._forget() for lock in list(_HELD)]
    )
