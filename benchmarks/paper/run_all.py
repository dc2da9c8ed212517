"""Runs the studies that a CPU can do, then fills the tables of the page.

python benchmarks/paper/run_all.py
python benchmarks/paper/run_all.py --only regressors priors
"""

import argparse
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
HELPERS = ("get_data", "recipe", "results", "run_all", "train_classifiers")
STUDIES = sorted(
    path.stem for path in HERE.glob("*.py") if path.stem not in HELPERS
)
WANT_A_GPU = ("auto_encoders", "corrupted_images")
"""Run only when named."""


def run(script, *arguments):
    """Whether a script fails; it runs on JAX unless told otherwise."""
    begin = time.perf_counter()
    environment = {"KERAS_BACKEND": "jax", **os.environ}
    command = [sys.executable, str(script), *arguments]
    failed = subprocess.run(command, env=environment).returncode != 0
    seconds = time.perf_counter() - begin
    print(f"{script.stem}: {seconds:.0f} s{' FAILED' * failed}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=STUDIES)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    names = options.only or [n for n in STUDIES if n not in WANT_A_GPU]
    arguments = ["--quick"] * options.quick
    failed = [n for n in names if run(HERE / f"{n}.py", *arguments)]
    if not options.quick:
        run(HERE.parent / "tables_of_pages.py")
    sys.exit(f"failed: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
