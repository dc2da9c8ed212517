"""The `keras-likelihood` command."""

import signal
import sys
from typing import Any, NoReturn

INTERRUPTED = "interrupted; unfinished files were removed"
interrupts: list[int] = []
"""Signals that asked this program to stop."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    Little is imported before, so that Ctrl-C is one line from the start.
    """
    is_program = arguments is None
    try:
        if is_program:
            # On SIGTERM unfinished files are removed, as on Ctrl-C.
            signal.signal(signal.SIGTERM, _interrupt)
            signal.signal(signal.SIGINT, _interrupt)
        from keras_likelihood.commands import program

        return program.run(arguments)
    except BaseException as error:
        # Some imports turn an interrupt into an error of another type.
        if not interrupts and not isinstance(error, KeyboardInterrupt):
            raise
        print(f"keras-likelihood: {INTERRUPTED}", file=sys.stderr)
        return 130
    finally:
        if is_program:
            # Leaving takes a while. A second Ctrl-C would show a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interrupt(number: int, frame: Any) -> NoReturn:
    interrupts.append(number)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
