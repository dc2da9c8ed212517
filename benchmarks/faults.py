"""Counts lost rows when training with a table in a file is interrupted.

    KERAS_BACKEND=jax python benchmarks/faults.py
    python benchmarks/faults.py --parts kills pairs --kills 20

`kills` ends a training with SIGKILL or SIGTERM at random moments. `fit` saves a
checkpoint after every batch. Each checkpoint must contain a model and rows of
the same step, and each value in the table must be from the last step or the
step before. `disks` fills small disks (as root; otherwise it limits the size of
files). `pairs` starts second writers and readers while a training runs.
`positions` ends trainings before every batch and inside of it, by an error, by
Ctrl-C and by a wrong batch, with another thread that reads, on every backend;
each row must be that of a table in memory. `files` gives the commands bad
files.
"""

import argparse
import contextlib
import errno
import importlib.util
import json
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS = ("kind", "tried", "rows lost", "hangs", "other faults")
ROWS, BATCH, WIDTH, EPOCHS = 40, 8, 50, 200


def make(path=None, rows=ROWS):
    import keras

    import keras_likelihood as kl

    table = path and kl.data_parameters.FileTable(path)
    scale = kl.DataParameter(rows, dimension="element", table=table)
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(WIDTH, kernel_initializer="ones")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.001), loss=kl.losses.NormalLoss(scale=scale)
    )
    return model, scale


def data():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(ROWS, 3)).astype("float32")
    return x, rng.normal(size=(ROWS, WIDTH)).astype("float32")


def fit(model, *callbacks, epochs=1):
    import keras_likelihood as kl

    x, y = data()
    model.fit(
        x,
        kl.indexed(y),
        callbacks=[*callbacks],
        epochs=epochs,
        batch_size=BATCH,
        shuffle=False,
        verbose=0,
    )


def before_batch(function):
    """A callback that calls `function(batch)`, with the model up to date."""
    import keras

    class Before(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if self.model:
                function(batch)

    return Before()


def states(epochs):
    """Kernel and rows before each step, with a table in memory."""
    model, scale = make()
    found = []

    def note(_):
        found.append((model.get_weights()[0], scale.state()))

    fit(model, before_batch(note), epochs=epochs)
    note(None)
    return found


def is_close(a, b):
    return np.isclose(a, b, rtol=1e-4, atol=1e-6)


def tally(kind):
    return {**dict.fromkeys(COLUMNS, 0), "kind": kind}


def start(function, *arguments):
    """Calls a function in another process.

    PyTorch can be forked, which saves the seconds of importing it.
    """
    import keras

    how = "fork" if keras.backend.backend() == "torch" else "spawn"
    context = multiprocessing.get_context(how)
    child = context.Process(target=function, args=arguments, daemon=True)
    child.start()
    return child


def wait_for(path, child, seconds=120):
    end = time.monotonic() + seconds
    while not os.path.exists(path):
        if not child.is_alive() or time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def train(folder, path, epochs=EPOCHS):
    """What a process does until it is ended: it trains and saves."""
    import keras

    model, _ = make(path)
    checkpoint = keras.callbacks.ModelCheckpoint(
        os.path.join(folder, "model.weights.h5"),
        save_weights_only=True,
        save_freq=1,
    )
    fit(model, checkpoint, epochs=epochs)


def kills(args):
    row = tally("training killed")
    expected = states(EPOCHS)
    rows_only = np.stack([rows for _, rows in expected])
    moments = random.Random(args.seed)
    for number in range(args.kills):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "scale.npy")
            checkpoint = os.path.join(folder, "model.weights.h5")
            child = start(train, folder, path)
            row["hangs"] += not wait_for(checkpoint, child)
            time.sleep(moments.random())
            how = (signal.SIGKILL, signal.SIGTERM)[number % 4 == 3]
            os.kill(child.pid, how)
            child.join()
            row["tried"] += 1
            row["other faults"] += child.exitcode != -how
            # The table as it was left, which may have one row that is torn.
            left = np.load(path)
            step = int(np.argmin(np.abs(rows_only - left).sum(axis=(1, 2, 3))))
            near = rows_only[max(0, step - 1) : step + 2]
            known = is_close(near, left).any(axis=0)
            row["rows lost"] += int((~known).any(axis=(1, 2)).sum())
            model, scale = make(path)
            model.load_weights(checkpoint)
            kernel = model.get_weights()[0]
            away = [np.abs(kernel - k).max() for k, _ in expected]
            kernel_then, rows_then = expected[int(np.argmin(away))]
            good = is_close(scale.state(), rows_then).all(axis=(1, 2))
            row["rows lost"] += int((~good).sum())
            row["other faults"] += not is_close(kernel, kernel_then).all()
            names = {"scale.npy", "scale.npy.json", "model.weights.h5"}
            left = set(os.listdir(folder)) - names - {"scale.npy.lock"}
            # A process that is killed may leave the file it was writing.
            row["other faults"] += len(left) > 1
    return [row]


@contextlib.contextmanager
def small_disk(kind, megabytes=4):
    """A folder on a disk that is soon full."""
    with tempfile.TemporaryDirectory() as folder:
        point = os.path.join(folder, "disk")
        os.mkdir(point)
        if kind == "limit":
            yield point
            return
        source = "tmpfs"
        options = ["-t", "tmpfs", "-o", f"size={megabytes}m"]
        if kind == "ext4":
            source, options = os.path.join(folder, "image"), ["-o", "loop"]
            with open(source, "wb") as image:
                image.truncate(megabytes * 2**20)
            _call("mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", source)
        _call("mount", *options, source, point)
        try:
            yield point
        finally:
            _call("umount", point)


def _call(*command):
    subprocess.run(command, check=True, capture_output=True)


def disk_kinds():
    """Kinds of small disks this user can have."""
    kinds = []
    for kind in ("ext4", "tmpfs"):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            with small_disk(kind):
                kinds.append(kind)
    return kinds or ["limit"]


def disks(args):
    made, kinds = [], disk_kinds()
    for kind in kinds:
        row = tally(f"disk full ({kind})")
        roads = ["make"] if kind == "limit" else ["make", "train", "sparse"]
        for number in range(-(-args.disks // len(kinds))):
            with small_disk(kind) as folder:
                road = roads[number % len(roads)]
                child = start(full_disk, folder, road, kind)
                child.join()
                counts = pathlib.Path(folder).with_suffix(".json")
                lost, faults = 0, 1
                if child.exitcode == 0:
                    lost, faults = json.loads(counts.read_text())
            row["tried"] += 1
            row["rows lost"] += lost
            row["other faults"] += faults
        made.append(row)
    return made


def full_disk(folder, road, kind):
    """One full disk, in a process that it might end.

    Writes the number of rows lost and of other faults beside the folder.
    """
    counts = _full_disk(folder, road, kind)
    pathlib.Path(folder).with_suffix(".json").write_text(json.dumps(counts))


def _full_disk(folder, road, kind):
    path, filler = os.path.join(folder, "t.npy"), os.path.join(folder, "fill")
    faults = lost = 0
    if kind == "limit":
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        top = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, top))
    if road == "make":
        model, _ = make(path, rows=20_000)
        faults += not _is_refused(lambda: fit(model))
        faults += os.path.exists(path) or os.path.exists(f"{path}.new")
        return lost, faults
    model, scale = make(path)
    expected = states(2)
    checkpoint = os.path.join(folder, "model.weights.h5")
    fit(model)
    model.save_weights(checkpoint)
    if road == "sparse":
        # As a copy that leaves out blocks of zeros.
        size = os.path.getsize(path)
        with open(path, "r+b") as file:
            header = file.read(128)
        with open(path, "wb") as file:
            file.write(header)
            file.truncate(size)
    fill(filler)
    if road == "sparse":
        faults += not _is_refused(lambda: fit(model))
    else:
        # The space of the table is reserved, that of a checkpoint is not.
        fit(model)
        faults += not _is_refused(lambda: model.save_weights(checkpoint))
        good = is_close(scale.state(), expected[10][1]).all(axis=(1, 2))
        lost += int((~good).sum())
    os.remove(filler)
    model.load_weights(checkpoint)
    good = is_close(scale.state(), expected[5][1]).all(axis=(1, 2))
    lost += int((~good).sum())
    return lost, faults


def _is_refused(function):
    try:
        function()
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EFBIG)
    return False


def fill(path):
    """Takes all room of the disk."""
    with open(path, "wb", buffering=0) as file:
        for size in (2**16, 2**12, 2**9):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass


def pairs(args):
    second, reader = tally("second writer"), tally("reader during a training")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scale.npy")
        child = start(train, folder, path, 50 * EPOCHS)
        checkpoint = os.path.join(folder, "model.weights.h5")
        second["hangs"] += not wait_for(checkpoint, child)
        for _ in range(args.pairs):
            second["tried"] += 1
            model, scale = make(path)
            try:
                fit(model)
                second["other faults"] += 1
            except BlockingIOError:
                pass
            reader["tried"] += 1
            values = scale.values()
            reader["rows lost"] += int((~np.isfinite(values)).sum())
        # It trained all the while.
        second["other faults"] += not child.is_alive()
        child.kill()
        child.join()
    return [second, reader]


def positions(args):
    made = []
    for backend in args.backends:
        row = tally(f"training stopped ({backend})")
        paths = {"KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT)}
        child = subprocess.run(
            [sys.executable, __file__, "--child"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **paths},
        )
        if child.returncode:
            row["other faults"] += 1
        else:
            found = json.loads(child.stdout.splitlines()[-1])
            row |= dict(zip(COLUMNS[1:], found, strict=True))
        made.append(row)
    return made


def stop_everywhere():
    """Stops trainings at each position; prints what was counted."""
    expected = states(1)
    tried = lost = hangs = faults = 0
    for how in ("error", "interrupt", "signal", "shape"):
        for position in range(ROWS // BATCH):
            with tempfile.TemporaryDirectory() as folder:
                model, scale = make(os.path.join(folder, "scale.npy"))
                done, failures = threading.Event(), []
                reader = threading.Thread(
                    target=_read, args=(scale, done, failures)
                )
                reader.start()
                stopped = _stopped(model, how, position)
                done.set()
                reader.join(60)
                tried += 1
                hangs += reader.is_alive()
                faults += (not stopped) + len(failures)
                rows = expected[position][1]
                good = is_close(scale.state(), rows).all(axis=(1, 2))
                lost += int((~good).sum())
    print(json.dumps([tried, lost, hangs, faults]))


def _read(scale, done, failures):
    while not done.is_set():
        try:
            if not np.isfinite(scale.values()).all():
                failures.append("not finite")
        except Exception as error:
            failures.append(error)


def _stopped(model, how, position):
    import keras_likelihood as kl

    x, y = data()

    def stop(batch):
        if batch == position and how == "error":
            raise RuntimeError
        if batch == position and how == "interrupt":
            raise KeyboardInterrupt
        if batch == position and how == "signal":
            signal.raise_signal(signal.SIGINT)

    def batches():
        for i in range(ROWS // BATCH):
            part = slice(BATCH * i, BATCH * (i + 1))
            width = 2 if how == "shape" and i == position else 3
            numbers = np.arange(ROWS)[part]
            yield x[part, :width], kl.indexed(y[part], index=numbers)

    try:
        callbacks = [before_batch(stop)]
        model.fit(batches(), callbacks=callbacks, shuffle=False, verbose=0)
    except (Exception, KeyboardInterrupt):
        return True
    return False


def show(rows):
    """Prints dicts as a table."""
    columns = list(rows[0])
    cells = [columns, *([str(r[c]) for c in columns] for r in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        first, *others = zip(line, widths, strict=True)
        text = [first[0].ljust(first[1]), *(c.rjust(w) for c, w in others)]
        print("  ".join(text), flush=True)


PARTS = {
    "kills": kills,
    "disks": disks,
    "pairs": pairs,
    "positions": positions,
}
BACKENDS = ("tensorflow", "jax", "torch")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*PARTS, "files"]
    parser.add_argument("--parts", nargs="+", choices=names, default=names)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--disks", type=int, default=24)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument(
        "--backends", nargs="+", choices=BACKENDS, default=BACKENDS
    )
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--every", type=int, default=1, help="of the bad files")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    sys.path.insert(0, str(ROOT))
    if args.child:
        stop_everywhere()
        return
    begin = time.time()
    rows = [r for p in PARTS if p in args.parts for r in PARTS[p](args)]
    if rows:
        show(rows)
    print(f"{time.time() - begin:.0f} s")
    bad = sum(row[column] for row in rows for column in COLUMNS[2:])
    if "files" in args.parts and importlib.util.find_spec("bad_files"):
        import bad_files

        print()
        show(bad_files.run(args))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
