"""Cost of a large data parameter: over devices, in memory and in a file.

    python benchmarks/scaling.py
    python benchmarks/scaling.py --parts devices rows
    python benchmarks/scaling.py --parts file --folder /mnt/disk
    python benchmarks/scaling.py --plan 1e9 --devices 8 --disk-rate 1e9

It runs on JAX. `devices` shards a table over 1, 2, 4 and 8 simulated CPU
devices. They share the cores, so a step on more devices takes longer for any
table. A table of 100,000 rows, which is trained alternately with the large one,
shows the effect of the number of rows, as a ratio of processor times. `rows`
measures tables of growing size on one device, and `file` on disk. The network
is small, so most of a step is the cost of the table. Tables of one line or part
alternate, round after round, and the fastest round is reported.

The second half of an epoch accesses the rows of the first half again. In the
first half, a step accesses pages of the file that this process has not used
before (`first ms`). In the second half it does not (`ms a step`). In a whole
epoch of a large table nearly all accesses are like the second half: a page has
some 340 rows, and only the first access to one of them is slow.

`--plan` computes what a table needs, from its rows and the rate of the disk.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time

FLOATS = 3
"""A value of a row with its mean square and its momentum."""

SMALL = 100_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ("devices", "rows", "file")
    parser.add_argument("--parts", nargs="+", choices=names, default=names)
    parser.add_argument("--table", type=float, default=1e7)
    parser.add_argument("--rows", nargs="+", type=float)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where the tables on disk go")
    parser.add_argument("--plan", type=float, help="rows of a table to plan")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--disk-rate", type=float, default=5e8)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args, **json.loads(args.measure))))
    elif args.plan:
        plan(int(args.plan), args.devices, args.disk_rate)
    else:
        for part in args.parts:
            {"devices": devices, "rows": rows, "file": file}[part](args)


def plan(count, devices, disk_rate):
    """Prints the bytes and times of a table of `count` rows."""
    memory = 4 * FLOATS * count
    share = 4 * FLOATS * math.ceil(count / devices)
    print(f"{count:,} rows of {FLOATS} float32")
    print(f"  in memory or in a file   {memory / 1e9:10.2f} GB")
    print(f"  a device of {devices:<4}         {share / 1e9:10.2f} GB")
    print(f"  row numbers              {'int32' if count < 2**31 else 'int64'}")
    print(
        f"  a checkpoint             {memory / disk_rate:10.0f} s "
        f"at {disk_rate / 1e6:,.0f} MB/s"
    )
    for batch in (64, 512, 4096):
        moved = 2 * 4 * FLOATS * batch
        print(f"  a step of {batch:<5} examples {moved / 1e3:10.1f} kB moved")


def devices(args):
    print(f"\nA table of {args.table:,.0f} rows over simulated devices")
    head = ("devices", "ms a step", "computed", "ratio", "MB a device")
    print("".join(f"{name:>14}" for name in head))
    for count in (1, 2, 4, 8):
        made = elsewhere(args, counts=[args.table, SMALL], devices=count)
        large, small = made["tables"]
        ratio = large["computed"] / small["computed"]
        print(
            f"{count:14}{large['ms']:14.3f}{large['computed']:14.3f}"
            f"{ratio:14.2f}{large['bytes'] / 1e6:14.1f}",
            flush=True,
        )


def rows(args):
    print("\nTables in the memory of one device")
    counts = args.rows or (1e5, 1e6, 1e7, 1e8)
    report(elsewhere(args, counts=counts), counts)


def file(args):
    print("\nTables in a file")
    counts = args.rows or (1e5, 1e7, 1e8)
    report(elsewhere(args, counts=counts, on_disk=True), counts)


def report(made, counts):
    head = ("rows", "ms a step", "computed", "first ms", "MB", "save s", "MB/s")
    print("".join(f"{name:>14}" for name in head))
    for count, table in zip(counts, made["tables"], strict=True):
        megabytes = table["bytes"] / 1e6
        print(
            f"{count:14,.0f}{table['ms']:14.3f}{table['computed']:14.3f}"
            f"{table['first']:14.3f}{megabytes:14.1f}{table['save']:14.2f}"
            f"{megabytes / table['save']:14.0f}"
        )
    print(f"Peak memory of the process: {made['process'] / 1e6:,.0f} MB")
    sys.stdout.flush()


def elsewhere(args, **case):
    """Measures a case in a process of its own."""
    flag = f"--xla_force_host_platform_device_count={case.get('devices', 1)}"
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [root, os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "KERAS_BACKEND": "jax",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flag}",
    }
    done = subprocess.run(
        [sys.executable, *sys.argv, "--measure", json.dumps(case)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def measure(args, counts, devices=1, on_disk=False):
    """Times steps of `fit` and a checkpoint, and reads off the memory."""
    import keras
    import numpy as np
    from fit_overhead import Halves

    import keras_likelihood as kl

    if devices > 1:
        keras.distribution.set_distribution(keras.distribution.DataParallel())
    rng = np.random.default_rng(0)
    examples = 2 * args.steps * args.batch
    x = rng.normal(size=(examples, 8)).astype("float32")
    y = rng.normal(size=(examples, 1)).astype("float32")
    shard = "batch" if devices > 1 else None
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        models = [make(int(n), shard, on_disk and folder) for n in counts]
        times: list = [[] for _ in counts]
        for _ in range(args.rounds + 1):
            for (model, scale), seconds in zip(models, times, strict=True):
                half = rng.integers(0, scale.num_examples, examples // 2)
                index = np.tile(half, 2)
                clock = Halves()
                model.fit(
                    x,
                    kl.indexed(y, index=index),
                    batch_size=args.batch,
                    shuffle=False,
                    verbose=0,
                    callbacks=[clock],
                )
                seconds.append(np.ravel(clock.halves))
        tables = []
        for (_, scale), seconds in zip(models, times, strict=True):
            names = ("first", "first computed", "ms", "computed")
            best = 1e3 * np.min(seconds[1:], axis=0)
            table = dict(zip(names, best.tolist(), strict=True))
            tables.append(table | saved(scale, folder))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"tables": tables, "process": 1024 * peak}


def make(count, shard, folder):
    import keras

    import keras_likelihood as kl

    rows = kl.data_parameters
    table = rows.MemoryTable(shard)
    if folder:
        table = rows.FileTable(os.path.join(folder, f"{count}.npy"))
    optimizer = rows.SparseRMSProp(momentum=0.9)
    scale = kl.DataParameter(count, optimizer=optimizer, table=table)
    inputs = keras.Input((8,))
    hidden = keras.layers.Dense(16, activation="relu")(inputs)
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(hidden))
    model.compile("adam", loss=kl.losses.NormalLoss(scale=scale))
    return model, scale


def saved(scale, folder):
    """The bytes of a table on one device or in a file, and a checkpoint."""
    path = os.path.join(folder, "checkpoint")
    start = time.perf_counter()
    scale.save(path)
    seconds = time.perf_counter() - start
    for name in os.listdir(folder):
        if name.startswith("checkpoint"):
            os.remove(os.path.join(folder, name))
    if hasattr(scale.table, "path"):
        size = os.path.getsize(scale.table.path)
    else:
        table = scale.variables[0].value
        size = table.addressable_shards[0].data.nbytes
    return {"bytes": size, "save": seconds}


if __name__ == "__main__":
    main()
