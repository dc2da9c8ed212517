"""How far a long piece of work is, on stderr."""

import contextlib
import sys
import time


@contextlib.contextmanager
def showing_progress(text: str):
    """Yields a function of the steps done and of all steps.

    With rich and a terminal it draws a bar with the time that is left,
    otherwise about ten lines in all.

    Args:
        text: what is being done.
    """
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ModuleNotFoundError:
        yield _Lines(text)
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(text)
        return
    with Progress(console=console) as progress:
        task = progress.add_task(text, total=None)
        yield lambda done, total: progress.update(
            task, completed=done, total=total
        )


class _Lines:
    """Prints where the work is, with the seconds that are left."""

    def __init__(self, text):
        self.text = text
        self.first = None
        self.said = 0

    def __call__(self, done, total):
        now = time.monotonic()
        # The first step also compiles, and says little about the others.
        if self.first is None:
            self.first = done, now
        if done < total and done - self.said < total / 10 and done > 1:
            return
        self.said = done
        line = f"{self.text}: {done} of {total}"
        begun, since = self.first
        if begun < done < total:
            left = (now - since) / (done - begun) * (total - done)
            line += f", about {left:.0f} s left"
        print(line, file=sys.stderr, flush=True)
