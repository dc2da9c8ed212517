"""Runs the studies one after the other, then writes the page.

python benchmarks/paper/run_all.py
python benchmarks/paper/run_all.py --only nll_curves regressors
python benchmarks/paper/run_all.py --quick
"""

import argparse
import contextlib
import os
import subprocess
import sys
import time

from render import BESIDE, STUDIES
from results import HERE

ELSEWHERE = ("vae", "literal_vae", "temperatures_cifar10", "outliers_table")
"""Run only when named: three want an accelerator, one a long benchmark."""


def run(name, quick):
    """Runs one study; returns its exit status and seconds."""
    command = [sys.executable, str(HERE / f"{name}.py")]
    command += ["--quick"] * quick
    environment = {"KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3"}
    begin = time.perf_counter()
    done = subprocess.run(
        command,
        env={**environment, **os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print(done.stdout[-4000:])
    return done.returncode, time.perf_counter() - begin


@contextlib.contextmanager
def progress(total):
    """Yields a function to call with the name of each study that begins."""
    try:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )
    except ImportError:
        yield lambda name: print(f"{name} ...", flush=True)
        return
    columns = (
        TextColumn("{task.description:24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("", total=total)
        begun = []

        def begin(name):
            bar.update(task, description=name, completed=len(begun))
            begun.append(name)

        yield begin
        bar.update(task, description="done", completed=total)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=(*STUDIES, *BESIDE))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    names = options.only or [
        n for n in (*STUDIES, *BESIDE) if n not in ELSEWHERE
    ]
    failed = []
    with progress(len(names)) as begin:
        for name in names:
            begin(name)
            status, seconds = run(name, options.quick)
            print(f"{name}: {seconds:.0f} s" + " FAILED" * bool(status))
            failed += [name] * bool(status)
    if not options.quick:
        subprocess.run([sys.executable, str(HERE / "render.py")], check=True)
    sys.exit(f"failed: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
