"""Where the studies of the paper leave their results.

A study ends with `record(NAME, data, figures)`, which writes
`docs/paper/NAME.json` and one picture for each figure, and prints the tables.
`benchmarks/tables_of_pages.py` puts them on the pages. With `--quick` a study
is a smoke test, and its results go to a temporary folder instead.
"""

import argparse
import concurrent.futures
import io
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time
from importlib.metadata import version

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "paper"
LARGEST_PICTURE = 150_000
WIDTH = 9.6
"""Inches of the widest figures: more, and letters are small on the page."""
BELOW = "outside lower center"
"""Where a legend of all panels stands."""
PACKAGES = "keras", "numpy", "scipy", "scikit-learn"
_started = time.perf_counter()


def parser(description: str) -> argparse.ArgumentParser:
    """A parser of command lines with `--quick`."""
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    made.add_argument(
        "--quick",
        action="store_true",
        help="a smoke test, whose results go to a temporary folder",
    )
    return made


def parallel(function, tasks, jobs=None):
    """`[function(*task) for task in tasks]`, in `JOBS` processes (default 1).

    The function must be at the top level of its module.
    """
    jobs = jobs or int(os.environ.get("JOBS", 1))
    if jobs == 1:
        return [function(*task) for task in tasks]
    with concurrent.futures.ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn")
    ) as pool:
        return list(pool.map(function, *zip(*tasks, strict=True)))


def record(name: str, data: dict, figures=None, *, quick: bool = False):
    """Writes the result of a study and prints its tables.

    Args:
        name: of the study, that of its script.
        data: JSON-able. `data["tables"]`, by name, are shown as tables: each
            has `columns`, `rows` (lists by row name; `None` is a gap) and
            may have `errors` (standard errors, as `rows`).
        figures: matplotlib figures by name, or `None`.
        quick: write to a temporary folder.

    Returns:
        The path of the JSON file.
    """
    import keras

    folder = FOLDER
    if quick:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="paper-"))
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {}
    for key, figure in (figures or {}).items():
        pictures[key] = f"{name}_{key}.png"
        (folder / pictures[key]).write_bytes(as_png(figure))
    script = pathlib.Path(sys.argv[0]).name
    study = {
        "command": " ".join(
            ["python", f"benchmarks/paper/{script}", *sys.argv[1:]]
        ),
        "backend": keras.backend.backend(),
        "seconds": round(time.perf_counter() - _started, 1),
        "cores": os.cpu_count(),
        "versions": {name: version(name) for name in PACKAGES},
        "figures": pictures,
        "data": data,
    }
    path = folder / f"{name}.json"
    text = json.dumps(study, indent=1, default=lambda value: value.tolist())
    path.write_text(text + "\n")
    for title, table in data["tables"].items():
        print(title, "|", *table["columns"], sep="  ")
        for row, values in table["rows"].items():
            print(
                row,
                *(f"{v:.4g}" if isinstance(v, float) else v for v in values),
            )
    print(f"written to {path}")
    return path


def mean_and_error(repeats: dict) -> dict:
    """Means over repeats and their standard errors, as a table has them.

    Args:
        repeats: by row, an array-like `(repeats, columns)`.

    Returns:
        `rows` and, if there are several repeats, `errors`.
    """
    arrays = {
        name: np.asarray(values, float) for name, values in repeats.items()
    }
    table = {"rows": {n: list(v.mean(axis=0)) for n, v in arrays.items()}}
    if all(len(values) > 1 for values in arrays.values()):
        table["errors"] = {
            name: list(values.std(axis=0, ddof=1) / len(values) ** 0.5)
            for name, values in arrays.items()
        }
    return table


def as_png(figure, dpi=110) -> bytes:
    """The figure in 256 colours, which keeps the repository small."""
    from PIL import Image

    raw = io.BytesIO()
    figure.savefig(raw, dpi=dpi, format="png")
    image = Image.open(raw).convert("RGB")
    small = io.BytesIO()
    image.quantize(256, dither=Image.Dither.NONE).save(
        small, format="png", optimize=True
    )
    if small.tell() > LARGEST_PICTURE and dpi > 40:
        return as_png(figure, dpi * 0.8)
    return small.getvalue()


def pyplot():
    """`matplotlib.pyplot`, drawing to files."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.constrained_layout.use": True,
            "legend.frameon": False,
        }
    )
    return plt
