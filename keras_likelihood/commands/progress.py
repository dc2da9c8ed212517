"""Shows the progress of long work on stderr."""

import contextlib
import sys
import time


@contextlib.contextmanager
def showing_progress(text: str, *, after: float = 0.0, quiet: bool = False):
    """Yields a function of the steps done and of all steps.

    In a terminal it draws a bar with the time that is left. Elsewhere it
    prints about ten lines in all. Work of unknown length, for which the
    function is never called, has a moving bar in a terminal and no lines.

    Args:
        text: what is being done.
        after: seconds before the first line is printed. Defaults to 0.
        quiet: whether to show nothing. Defaults to False.
    """
    if quiet:
        yield lambda done, total: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(text, after)
        return
    with _bar(console) as progress:
        task = progress.add_task(text, total=None)
        yield lambda done, total: progress.update(
            task, completed=done, total=total
        )


def _bar(console):
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("taken"),
        TimeElapsedColumn(),
        console=console,
    )


class _Lines:
    """Prints the progress and the seconds that are left."""

    def __init__(self, text, after):
        self.text = text
        self.after = after
        self.begun = time.monotonic()
        self.first = None
        self.said = 0

    def __call__(self, done, total):
        now = time.monotonic()
        # The first step also compiles, and says little about the others.
        if self.first is None:
            self.first = done, now
        if now - self.begun < self.after or self.said >= total:
            return
        if done < total and done - self.said < total / 10 and done > 1:
            return
        self.said = done
        line = f"{self.text}: {done:.0f} of {total}"
        begun, since = self.first
        if begun < done < total:
            left = (now - since) / (done - begun) * (total - done)
            line += f", about {left:.0f} s left"
        print(line, file=sys.stderr, flush=True)
