"""Runs the commands on invalid files and options.

    KERAS_BACKEND=torch python benchmarks/bad_files.py
    KERAS_BACKEND=torch python benchmarks/bad_files.py --every 15

Every case of `bad_file_cases` runs in its own folder, in this process. A case
passes if the exit status is right, if an error is one line on stderr, and if no
file except the named outputs was created or changed. After an error, no file
may be changed at all. For each kind of case, the table counts the cases that
ended in a traceback and those that failed in another way. The last column
counts damaged archives that were accepted and gave another result.
"""

import argparse
import collections
import contextlib
import functools
import hashlib
import io
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import traceback
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Many tiny programs run once each.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

from bad_file_cases import all_cases, good_files  # noqa: E402

from keras_likelihood import cli, outliers  # noqa: E402

COLUMNS = (
    "kind",
    "tried",
    "refused",
    "accepted",
    "traceback",
    "other fault",
    "silently wrong",
)
_MAY_BE = re.compile(r"warning: |[a-z ]+: \d+ of \d+")
"""Lines of stderr that are no error: warnings and progress."""
LONGEST = 60
"""Seconds after which a case counts as hanging."""


def run(args) -> list[dict]:
    """Runs the corpus.

    Args:
        args: may have `every`, to run each n-th case only, and `verbose`, to
            print the cases that fail.

    Returns:
        A row of the table for every kind of case, and one for all.
    """
    rows = collections.defaultdict(collections.Counter)
    clean = {}
    for case in all_cases()[:: getattr(args, "every", 1)]:
        verdict, text = judge(case, clean)
        for kind in (case.kind, "all"):
            rows[kind]["tried"] += 1
            rows[kind][verdict] += 1
        failed = verdict not in ("refused", "accepted")
        if failed and getattr(args, "verbose", False):
            print(f"{verdict}: {case.kind}: {case.command}: {text}", flush=True)
    order = sorted(rows, key=lambda kind: (kind == "all", kind))
    return [
        {"kind": kind, **{c: rows[kind][c] for c in COLUMNS[1:]}}
        for kind in order
    ]


def judge(case, clean) -> tuple[str, str]:
    """Runs one case; returns a column of the table and what was seen."""
    with _folder(case):
        before = _snapshot()
        status, printed, errors = call(case.command)
        after = _snapshot()
    if isinstance(status, str):
        return "traceback", status
    lines = [v for v in errors.splitlines() if not _MAY_BE.match(v)]
    if status not in case.expected or "unexpected" in errors:
        return "other fault", f"exit status {status}: {errors.strip()[-300:]}"
    if len(lines) != (status != 0):
        return "other fault", f"{len(lines)} lines on stderr: {errors[-300:]}"
    allowed = set(case.outputs) if status == 0 else set()
    touched = {
        p for p in before.keys() | after.keys() if before.get(p) != after.get(p)
    } - allowed
    if touched:
        return "other fault", f"touched {sorted(touched)}"
    if status == 0 and case.same and printed != _clean(case.command, clean):
        return "silently wrong", printed
    return ("refused" if status else "accepted"), errors.strip()


def call(command: str) -> tuple[int | str, str, str]:
    """Runs a command here.

    Returns:
        The exit status, or the end of a traceback; stdout; stderr.
    """
    out, err = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, _hang)
    signal.alarm(LONGEST)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(outliers, "PCAScale", _quick_detector()),
        ):
            status = cli.main(command.split())
    except SystemExit as stop:
        status = stop.code
        if isinstance(status, str):
            # As the interpreter does.
            err.write(status + "\n")
            status = 1
    except BaseException:
        status = traceback.format_exc()[-600:]
    finally:
        signal.alarm(0)
    # How long a fit took differs from run to run.
    lines = [v for v in out.getvalue().splitlines() if "/step" not in v]
    lines = [re.sub(r" +\d+\.\d\d(  ◀ best)?$", r"\1", v) for v in lines]
    return status, "\n".join(lines), err.getvalue()


@functools.cache
def _quick_detector():
    return functools.partial(outliers.PCAScale, steps=1, batch_size=8)


def _hang(*_):
    raise TimeoutError(f"no end after {LONGEST} s")


def _clean(command, clean):
    if command not in clean:
        with _folder(None):
            clean[command] = call(command)[1]
    return clean[command]


@contextlib.contextmanager
def _folder(case):
    files = {**good_files(), **(case.files if case else {})}
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            if content is not None:
                path = pathlib.Path(folder, name)
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)
        with contextlib.chdir(folder):
            if case and case.prepare:
                case.prepare()
            yield


def _snapshot():
    """What every path here is, with the contents of files."""
    found = {}
    for path in sorted(pathlib.Path(".").rglob("*")):
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        elif path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[str(path)] = oct(path.lstat().st_mode)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="each n-th case")
    parser.add_argument("--verbose", action="store_true", help="show failures")
    started = time.perf_counter()
    rows = run(parser.parse_args())
    print("  ".join(f"{c:>14}" for c in COLUMNS))
    for row in rows:
        print("  ".join(f"{row[c]:>14}" for c in COLUMNS))
    print(f"{time.perf_counter() - started:.0f} s")
    bad = sum(rows[-1][c] for c in COLUMNS[4:])
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
