"""Prints text or one JSON document, and progress."""

import contextlib
import json
import math
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

Progress: TypeAlias = Callable[[float, float], None]
"""A function of the number of finished steps and of all steps."""
_NUMBER = re.compile(r"[-+\u2212]?[\d.,]+(e[-+]?\d+)?( ?%)?|-|")


class Console:
    """All commands print through this class: text to stdout, or one JSON."""

    def __init__(
        self, command: str, *, as_json: bool = False, quiet: bool = False
    ):
        self._results: dict[str, Any] = {"command": command}
        self._as_json = as_json
        self._quiet = quiet
        self._is_silent = as_json or quiet

    def say(self, text: str, style: str = "") -> None:
        """Prints a sentence. In a terminal it is wrapped between words."""
        if self._is_silent:
            return
        text = printable(text)
        if sys.stdout.isatty() and not text.startswith(" "):
            text = textwrap.fill(text, shutil.get_terminal_size().columns)
        print(_styled(text, style))

    def facts(self, facts: dict[str, Any]) -> None:
        """Prints one name and value on each line."""
        width = max(map(len, facts))
        for name, value in facts.items():
            self.say(f"{name:{width}}  {value}")

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Iterable[Any]],
        *,
        best: int | None = None,
    ) -> None:
        """Prints a table, whose row number `best` is marked."""
        if self._is_silent:
            return
        cells = [list(columns), *([printable(c) for c in row] for row in rows)]
        padded = []
        for column in zip(*cells, strict=True):
            is_number = all(map(_NUMBER.fullmatch, column[1:]))
            pad = str.rjust if is_number and len(column) > 1 else str.ljust
            padded.append([pad(c, max(map(len, column))) for c in column])
        for number, row in enumerate(zip(*padded, strict=True), -1):
            style = "bold" if number < 0 else "green" if number == best else ""
            mark = "  < best" if number == best else ""
            print(_styled("  ".join(row) + mark, style).rstrip())

    def next_step(self, text: str, command: str | None = None) -> None:
        """Prints what to do next, at the end of every command."""
        self.result(next_step=text, next_command=command)
        self.say(f"Next: {text}", style="bold")
        for line in (command or "").splitlines():
            self.say(f"  {line}", style="cyan")

    def result(self, **values: Any) -> None:
        """Stores values for the JSON document."""
        self._results.update(values)

    @contextlib.contextmanager
    def progress(self, text: str, after: float = 2.0) -> Iterator[Progress]:
        """Yields a function that shows the progress, after some seconds."""
        begun, shown = time.monotonic(), 0.0
        first: tuple[float, float] | None = None
        is_terminal = sys.stderr.isatty()

        def show(done: float, total: float) -> None:
            nonlocal first, shown
            now = time.monotonic()
            # The first step also compiles, so its time is not typical.
            first = first or (done, now)
            is_small_step = 1 < done < total and done - shown < total / 10
            hidden = self._quiet or now - begun < after or shown >= total
            if hidden or (is_small_step and not is_terminal):
                return
            shown, line = done, f"{text}: {done:.0f} of {total}"
            left = (now - first[1]) / max(done - first[0], 1) * (total - done)
            line += f", about {left:.0f} s left" * (left >= 1)
            # In a terminal, the line is overwritten.
            start, end = ("\r", "\x1b[K") if is_terminal else ("", "\n")
            print(f"{start}{line}", end=end, file=sys.stderr, flush=True)

        try:
            yield show
        finally:
            if is_terminal and shown:
                print(file=sys.stderr)

    def phase(self, text: str) -> None:
        """Prints what a long command is doing now, to stderr."""
        if not self._quiet:
            print(printable(text), file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Prints the JSON document with `--json`."""
        if self._as_json:
            json.dump(_plain(self._results), sys.stdout, allow_nan=False)
            print()


def callback(on_epoch: Progress) -> Any:
    """A Keras callback that shows the progress of a training."""
    import keras

    watcher = keras.callbacks.LambdaCallback()
    watcher.on_epoch_end = lambda epoch, logs=None: on_epoch(
        epoch + 1, watcher.params["epochs"]
    )
    return watcher


def printable(text: str) -> str:
    """Replaces characters that stdout cannot show by question marks."""
    # Names from files may contain line breaks or terminal control codes.
    text = "".join(c if c.isprintable() else "?" for c in str(text))
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


_STYLES = {"bold": "1", "dim": "2", "green": "1;32", "cyan": "36"}


def _styled(text: str, style: str) -> str:
    """The text, with a colour in a terminal."""
    if not style or not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def _plain(value: Any) -> Any:
    """Converts a value to JSON, which has no NaN and no infinity."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | None) else str(value)
