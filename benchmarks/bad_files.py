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
import traceback
import types
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Many tiny programs run once each.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

from bad_file_cases import all_cases, good_files  # noqa: E402

from keras_likelihood import cli, outliers  # noqa: E402

COLUMNS = ("kind", "tried", "refused", "accepted", "traceback")
COLUMNS += ("other fault", "silently wrong")
_MAY_BE = re.compile(r"warning: |[a-z ]+: \d+ of \d+")
"""Lines of stderr that are no error: warnings and progress."""
LONGEST = 60
"""Seconds after which a case counts as hanging."""


def run(args) -> list[dict]:
    """A row of the table for every kind of case, and one for all."""
    rows, clean = collections.defaultdict(collections.Counter), {}
    for case in all_cases()[:: args.every]:
        verdict, text = judge(case, clean)
        for kind in (case.kind, "~ all"):
            rows[kind].update(("tried", verdict))
        if args.verbose and verdict not in ("refused", "accepted"):
            print(f"{verdict}: {case.kind}: {case.command}: {text}", flush=True)
    return [
        {"kind": kind, **{c: rows[kind][c] for c in COLUMNS[1:]}}
        for kind in sorted(rows)
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
    touched = {
        p for p in before.keys() | after.keys() if before.get(p) != after.get(p)
    } - (set(case.outputs) if status == 0 else set())
    if touched:
        return "other fault", f"touched {sorted(touched)}"
    if status == 0 and case.same:
        if case.command not in clean:
            with _folder(types.SimpleNamespace(files={}, prepare=None)):
                clean[case.command] = call(case.command)[1]
        if printed != clean[case.command]:
            return "silently wrong", printed
    return ("refused" if status else "accepted"), errors.strip()


def call(command: str) -> tuple[int | str, str, str]:
    """Runs a command here.

    Returns:
        The exit status, or the end of a traceback; stdout; stderr.
    """
    out, err = io.StringIO(), io.StringIO()
    quick = functools.partial(outliers.PCAScale, steps=1, batch_size=8)
    signal.signal(signal.SIGALRM, _hang)
    signal.alarm(LONGEST)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(outliers, "PCAScale", quick),
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


def _hang(*_):
    raise TimeoutError(f"no end after {LONGEST} s")


@contextlib.contextmanager
def _folder(case):
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in {**good_files(), **case.files}.items():
            if content is not None:
                pathlib.Path(name).write_bytes(content)
        if case.prepare:
            case.prepare()
        yield


def _snapshot():
    """What every path here is, with the contents of files."""
    found = {}
    for path in pathlib.Path(".").rglob("*"):
        found[str(path)] = oct(path.lstat().st_mode)
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        elif path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, help="each n-th case")
    parser.add_argument("--verbose", action="store_true", help="show failures")
    rows = run(parser.parse_args())
    print("| " + " | ".join(COLUMNS) + " |\n|---|" + "---:|" * 6)
    for row in rows:
        print("| " + " | ".join(str(row[c]) for c in COLUMNS) + " |")
    return any(rows[-1][c] for c in COLUMNS[4:])


if __name__ == "__main__":
    sys.exit(main())
