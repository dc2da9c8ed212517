r"""Time and peak memory of the tools for inputs of growing size.

    python benchmarks/large_inputs.py
    python benchmarks/large_inputs.py --tools temperature vector --sizes 1e6
    python benchmarks/large_inputs.py --tools parquet csv --sizes 1e7

Each measurement runs in its own process. Its peak memory is the largest
resident set, including libraries and mapped files. The tools are

- `temperature` and `vector`: GlobalScaling and VectorScaling of `n x 1,000`
  float32 logits in a memory-mapped .npy file;
- `command`: `keras-likelihood recalibrate --method global` of the same file,
  which also judges before and after;
- `parquet` and `csv`: `keras-likelihood detect` of a table of ten columns;
- `fit`: `kl.tabular.Regressor` of a .parquet with 18 columns of numbers, one
  of texts, one of dates and the target;
- `audit`: `keras_likelihood.audit` of `n` examples of 20 features in ten
  classes, with the size of its page;
- `metrics`: calibration metrics of `n x 100` probabilities, in batches.

The data are random and are removed afterwards; 1e6 rows of logits are 4 GB.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

CLASSES = 1000
COLUMNS = 10
BLOCK = 4096
SIZES = (10_000, 100_000, 1_000_000)


def write_logits(folder, rows):
    """Overconfident logits, a part of the classes favoured."""
    path = folder / "logits.npy"
    out = np.lib.format.open_memmap(path, "w+", "float32", (rows, CLASSES))
    labels = np.empty(rows, dtype="int64")
    favour = np.linspace(0, 1, CLASSES, dtype="float32")
    rng = np.random.default_rng(0)
    for at in range(0, rows, BLOCK):
        part = slice(at, min(at + BLOCK, rows))
        shape = (part.stop - at, CLASSES)
        z = 2 * rng.standard_normal(shape, dtype="float32")
        gumbel = rng.standard_exponential(shape, dtype="float32")
        gumbel = -np.log(np.maximum(gumbel, 1e-30))
        labels[part] = (z / 1.7 + gumbel).argmax(axis=1)
        out[part] = z + favour
    out.flush()
    np.save(folder / "y.npy", labels)


def recalibrate(folder, rows, method):
    from keras_likelihood import recalibration

    logits = np.load(folder / "logits.npy", mmap_mode="r")
    labels = np.load(folder / "y.npy")
    fitted = getattr(recalibration, method)().fit_arrays(logits, labels)
    report = fitted.report_
    return f"NLL {report['nll_before']:.4f} to {report['nll_after']:.4f}"


def recalibrate_command(folder, rows):
    from keras_likelihood.cli import main

    options = ["--method", "global", "--quiet"]
    if main(["recalibrate", "--data", str(folder), *options]):
        raise SystemExit("recalibrate failed")
    return ""


def table_parts(rows):
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(3, COLUMNS))
    for at in range(0, rows, 2**16):
        count = min(2**16, rows - at)
        x = rng.normal(size=(count, 3)) @ mix
        x += 0.1 * rng.normal(size=x.shape)
        x[::100] += 3 * rng.normal(size=x[::100].shape)
        yield x


def write_csv(folder, rows):
    with open(folder / "table.csv", "w") as file:
        file.write(",".join(f"c{i}" for i in range(COLUMNS)) + "\n")
        for part in table_parts(rows):
            np.savetxt(file, part, fmt="%.5g", delimiter=",")


def write_parquet(folder, rows):
    import pyarrow
    import pyarrow.parquet

    names = [f"c{i}" for i in range(COLUMNS)]
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in names])
    path = folder / "table.parquet"
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for part in table_parts(rows):
            columns = [pyarrow.array(column) for column in part.T]
            writer.write_table(pyarrow.table(columns, schema=schema))


def detect(folder, rows, suffix):
    from keras_likelihood.cli import main

    data = str(folder / f"table.{suffix}")
    if main(["detect", data, "--top", "0", "--quiet", "--force"]):
        raise SystemExit("detect failed")
    return ""


def write_mixed(folder, rows):
    """A table whose target depends on five of its twenty columns."""
    import pyarrow
    import pyarrow.parquet

    rng, writer = np.random.default_rng(0), None
    for at in range(0, rows, 2**16):
        count = min(2**16, rows - at)
        x, town = rng.normal(size=(count, 18)), rng.integers(0, 40, count)
        days = rng.integers(0, 900, count)
        y = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * town + days / 900
        table = {f"c{i}": column for i, column in enumerate(x.T)} | {
            "town": np.char.add("town ", town.astype(str)),
            "day": np.datetime64("2020-01-01") + days,
            "y": y + 0.3 * rng.standard_t(4, count),
        }
        table = pyarrow.table(table)
        writer = writer or pyarrow.parquet.ParquetWriter(
            folder / "mixed.parquet", table.schema
        )
        writer.write_table(table)
    writer.close()


def fit(folder, rows):
    import keras_likelihood as kl

    model = kl.tabular.Regressor(random_state=0)
    model.fit(folder / "mixed.parquet", target="y")
    return f"RMSE {model.scores_['RMSE']:.3f}, noise has 0.42"


def write_nothing(folder, rows):
    """For tools whose data are made in their own process."""


def audit(folder, rows):
    import keras

    import keras_likelihood as kl

    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 20)).astype("float32")
    y = (x @ rng.normal(size=(20, 10)) + rng.gumbel(size=(rows, 10))).argmax(1)
    model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(10)])
    model.compile(
        "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    model.fit(x[:10_000], y[:10_000], epochs=10, verbose=0)
    page = folder / "audit.html"
    report = kl.audit(model, x, y, page, batch_size=4096)
    size = page.stat().st_size / 1e6
    return f"page of {size:.2f} MB, {report.num_issues:,} suspects"


def metrics(folder, rows):
    from keras_likelihood import metrics

    found = [metrics.ExpectedCalibrationError(), metrics.BrierScore()]
    rng = np.random.default_rng(0)
    for at in range(0, rows, BLOCK):
        shape = (min(BLOCK, rows - at), 100)
        p = rng.standard_exponential(shape, dtype="float32")
        p /= p.sum(axis=1, keepdims=True)
        y = rng.integers(0, 100, size=shape[0])
        for metric in found:
            metric.update_state(y, p)
    return ", ".join(f"{m.name} {float(m.result()):.4f}" for m in found)


TOOLS = {
    "temperature": (
        write_logits,
        lambda folder, rows: recalibrate(folder, rows, "GlobalScaling"),
    ),
    "vector": (
        write_logits,
        lambda folder, rows: recalibrate(folder, rows, "VectorScaling"),
    ),
    "command": (write_logits, recalibrate_command),
    "parquet": (
        write_parquet,
        lambda folder, rows: detect(folder, rows, "parquet"),
    ),
    "csv": (write_csv, lambda folder, rows: detect(folder, rows, "csv")),
    "fit": (write_mixed, fit),
    "audit": (write_nothing, audit),
    "metrics": (write_nothing, metrics),
}


def peak_memory():
    """GiB of the largest resident set of this program, on Linux.

    It counts the process that started this one, which stays small.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(tool, folder, rows):
    """Runs one tool in this process and prints what it took."""
    import keras_likelihood  # noqa: F401

    start = time.perf_counter()
    found = TOOLS[tool][1](folder, rows)
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "tool": tool,
                "rows": rows,
                "seconds": seconds,
                "peak": peak_memory(),
                "found": found,
            }
        )
    )


def run(tool, folder, rows):
    """`measure` in a process of its own."""
    root = pathlib.Path(__file__).resolve().parent.parent
    paths = [str(root), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    command = [sys.executable, __file__, "--measure", tool]
    command += ["--folder", str(folder), "--sizes", str(rows)]
    done = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def table_row(tool, rows, seconds, peak, found):
    return f"| {tool} | {rows:,} | {seconds:.1f} | {peak:.2f} GiB | {found} |"


def main(argv=None):
    """Measures and prints a table; returns its rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--tools", nargs="+", default=list(TOOLS), choices=TOOLS
    )
    parser.add_argument(
        "--sizes", nargs="+", type=lambda v: int(float(v)), default=SIZES
    )
    parser.add_argument("--folder", help="where the data go for a while")
    parser.add_argument("--measure", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure:
        folder = pathlib.Path(options.folder)
        measure(options.measure, folder, options.sizes[0])
        return []
    results = []
    print("| tool | rows | seconds | peak memory | |\n|---|---|---|---|---|")
    writers = dict.fromkeys(TOOLS[tool][0] for tool in options.tools)
    for writer, rows in itertools.product(writers, options.sizes):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                pool.apply(writer, (pathlib.Path(folder), rows))
            for tool in options.tools:
                if TOOLS[tool][0] is writer:
                    results.append(run(tool, folder, rows))
                    print(table_row(**results[-1]), flush=True)
    return results


if __name__ == "__main__":
    main()
