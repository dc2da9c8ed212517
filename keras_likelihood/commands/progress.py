"""Shows the progress of long work on stderr."""

import contextlib
import sys
import time


@contextlib.contextmanager
def showing_progress(text: str, *, after: float = 0.0, quiet: bool = False):
    """Yields a function of the steps done and of all steps.

    A terminal shows one line that changes. Elsewhere about ten lines are
    printed in all.

    Args:
        text: what is being done.
        after: seconds before the first line is printed. Defaults to 0.
        quiet: whether to show nothing. Defaults to False.
    """
    if quiet:
        yield lambda done, total: None
        return
    progress = _Progress(text, after)
    try:
        yield progress
    finally:
        progress.end()


class _Progress:
    """Prints the steps done and the seconds that are left."""

    def __init__(self, text, after):
        self.text = text
        self.after = after
        self.begun = time.monotonic()
        self.first = None
        self.said = 0
        self.is_terminal = sys.stderr.isatty()

    def __call__(self, done, total):
        now = time.monotonic()
        # The first step also compiles, and says little about the others.
        if self.first is None:
            self.first = done, now
        if now - self.begun < self.after or self.said >= total:
            return
        if done < total and done - self.said < total / 10 and done > 1:
            if not self.is_terminal:
                return
        self.said = done
        line = f"{self.text}: {done:.0f} of {total}"
        begun, since = self.first
        if begun < done < total:
            left = (now - since) / (done - begun) * (total - done)
            line += f", about {left:.0f} s left"
        # A terminal goes back and clears the rest of the line.
        start, end = ("\r", "\x1b[K") if self.is_terminal else ("", "\n")
        print(f"{start}{line}", end=end, file=sys.stderr, flush=True)

    def end(self):
        if self.is_terminal and self.said:
            print(file=sys.stderr)
