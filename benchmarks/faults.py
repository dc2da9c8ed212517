"""Counts lost and silently wrong rows when files and processes are attacked.

    KERAS_BACKEND=torch python benchmarks/faults.py
    python benchmarks/faults.py --parts tables others --tries 200

`kills` ends a training with SIGKILL or SIGTERM at random moments. `fit` saves a
checkpoint after every batch. Each checkpoint must contain a model and rows of
the same step, and each value in the table must be from the last step or the
step before. `disks` fills small disks (as root). `writers` starts second
writers, also through links, and readers while a training runs. `tables` damages
tables: they must be refused and not change. `others` gives a model the rows of
another data parameter, in all ways of loading. `indices` trains with row
numbers up to 2**64.
"""

import argparse
import errno
import json
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import keras_likelihood as kl

COLUMNS = ("kind", "tried", "rows lost or wrong", "hangs", "other faults")
ROWS, BATCH, WIDTH, EPOCHS = 40, 8, 50, 200


def make(path=None, rows=ROWS, loss=kl.losses.NormalLoss, **options):
    """A model with a table in memory, or in a file."""
    table = path and kl.data_parameters.FileTable(path)
    options = {"dimension": "element", "table": table, **options}
    scale = kl.DataParameter(rows, **options)
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(WIDTH, kernel_initializer="ones")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.001), loss=loss(scale=scale))
    return model, scale


def fit(model, *callbacks, epochs=1, index=None):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(ROWS, 3)).astype("float32")
    y = rng.normal(size=(ROWS, WIDTH)).astype("float32")
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0}
    y = kl.indexed(y, index=index)
    model.fit(x, y, epochs=epochs, callbacks=[*callbacks], **options)


def states(epochs):
    """Kernel and rows before each step, with a table in memory."""
    model, scale = make()
    found = []

    class Note(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            # Reading `model` updates its variables on JAX.
            found.append((self.model.get_weights()[0], scale.state()))

    fit(model, Note(), epochs=epochs)
    return [*found, (model.get_weights()[0], scale.state())]


def away(rows, expected) -> int:
    """Number of rows that differ."""
    close = np.isclose(rows, expected, rtol=1e-4, atol=1e-6)
    return int((~close).any(axis=(1, 2)).sum())


def tally(kind):
    return {**dict.fromkeys(COLUMNS, 0), "kind": kind}


def start(function, *arguments):
    """Calls a function in another process.

    PyTorch can be forked, which saves the seconds of importing it.
    """
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
    model, _ = make(path)
    target = os.path.join(folder, "model.weights.h5")
    options = {"save_weights_only": True, "save_freq": 1}
    save = keras.callbacks.ModelCheckpoint(target, **options)
    fit(model, save, epochs=epochs)


def kills(args):
    row, expected = tally("training killed"), states(EPOCHS)
    rows_only = np.stack([rows for _, rows in expected])
    for number in range(args.kills):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "scale.npy")
            checkpoint = os.path.join(folder, "model.weights.h5")
            child = start(train, folder, path)
            row["hangs"] += not wait_for(checkpoint, child)
            time.sleep(args.random.random())
            how = (signal.SIGKILL, signal.SIGTERM)[number % 4 == 3]
            os.kill(child.pid, how)
            child.join()
            row["tried"] += 1
            row["other faults"] += child.exitcode != -how
            # The table as it was left, which may have one row that is torn.
            left = np.load(path)
            step = int(np.argmin(np.abs(rows_only - left).sum(axis=(1, 2, 3))))
            near = rows_only[max(0, step - 1) : step + 2]
            close = np.isclose(near, left, rtol=1e-4, atol=1e-6).any(axis=0)
            row[COLUMNS[2]] += int((~close).any(axis=(1, 2)).sum())
            model, scale = make(path)
            model.load_weights(checkpoint)
            kernel = model.get_weights()[0]
            gaps = [np.abs(kernel - k).max() for k, _ in expected]
            row[COLUMNS[2]] += away(scale.state(), expected[np.argmin(gaps)][1])
            row["other faults"] += min(gaps) > 1e-4
            known = {"scale.npy", "scale.npy.json", "model.weights.h5"}
            # A process that is killed may leave the file it was writing.
            row["other faults"] += len(set(os.listdir(folder)) - known) > 1
    return [row]


def disks(args):
    row = tally("disk full")
    for number in range(args.disks):
        with tempfile.TemporaryDirectory() as folder:
            mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]
            subprocess.run(mount, check=True)
            try:
                child = start(_full_disk, folder, number % 2)
                child.join()
                report = pathlib.Path(f"{folder}.json")
                lost, faults = 0, 1
                if child.exitcode == 0:
                    lost, faults = json.loads(report.read_text())
                    report.unlink()
            finally:
                subprocess.run(["umount", folder], check=True)
        row["tried"] += 1
        row[COLUMNS[2]] += lost
        row["other faults"] += faults
    return [row]


def _full_disk(folder, is_new):
    path, faults, lost = os.path.join(folder, "t.npy"), 0, 0
    if is_new:
        model, _ = make(path, rows=20_000)
        faults += not _is_full(lambda: fit(model))
        faults += bool(os.listdir(folder))
    else:
        model, scale = make(path)
        expected, checkpoint = states(2), os.path.join(folder, "a.weights.h5")
        fit(model)
        model.save_weights(checkpoint)
        with open(os.path.join(folder, "fill"), "wb", buffering=0) as file:
            faults += not _is_full(
                lambda: [file.write(bytes(512)) for _ in [0] * 9999]
            )
        # The space of the table is reserved, that of a checkpoint is not.
        fit(model)
        faults += not _is_full(lambda: model.save_weights(checkpoint))
        lost += away(scale.state(), expected[10][1])
        os.remove(os.path.join(folder, "fill"))
        model.load_weights(checkpoint)
        lost += away(scale.state(), expected[5][1])
    pathlib.Path(f"{folder}.json").write_text(json.dumps([lost, faults]))


def _is_full(function):
    try:
        function()
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EFBIG)
    return False


def writers(args):
    second, reader = tally("second writer"), tally("reader during a training")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scale.npy")
        child = start(train, folder, path, 50 * EPOCHS)
        checkpoint = os.path.join(folder, "model.weights.h5")
        second["hangs"] += not wait_for(checkpoint, child)
        for suffix in ("", ".json"):
            os.symlink(path + suffix, os.path.join(folder, f"soft.npy{suffix}"))
            os.link(path + suffix, os.path.join(folder, f"hard.npy{suffix}"))
        for number in range(args.writers):
            name = ("scale.npy", "soft.npy", "hard.npy")[number % 3]
            model, scale = make(os.path.join(folder, name))
            second["tried"] += 1
            try:
                fit(model)
                second["other faults"] += 1
            except BlockingIOError:
                pass
            reader["tried"] += 1
            reader[COLUMNS[2]] += int((~np.isfinite(scale.values())).sum())
        # It trained all the while.
        second["other faults"] += not child.is_alive()
        child.kill()
        child.join()
    return [second, reader]


def damage(content: bytes, rng) -> bytes:
    """A table that is cut, longer, shifted, or has another header."""
    end = content.index(b"\n") + 1
    at, count = rng.randrange(len(content)), rng.randrange(1, 64)
    shape = b"%d, 2, %d)" % (rng.randrange(1, 10**12), WIDTH)
    head = bytearray(content[:end])
    head[rng.randrange(end)] ^= 1 << rng.randrange(8)
    return rng.choice(
        [
            content[:at],
            content[:at] + bytes(count) + content[at:],
            content[:at] + content[at + count :],
            content.replace(b"%d, 2, %d)" % (ROWS, WIDTH), shape, 1),
            bytes(head) + content[end:],
        ]
    )


def tables(args):
    row = tally("damaged table")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "scale.npy")
        model, scale = make(path)
        fit(model)
        good, expected = path.read_bytes(), scale.state()
        uses = (
            lambda scale: scale.values(),
            lambda scale: fit(scale.model),
            lambda scale: scale.append(1),
        )
        for number in range(args.tries):
            content = damage(good, args.random)
            path.write_bytes(content)
            _, scale = make(path)
            row["tried"] += 1
            try:
                uses[number % len(uses)](scale)
            except ValueError as error:
                row["other faults"] += "scale.npy" not in str(error)
                row["other faults"] += path.read_bytes() != content
            else:
                # A bit of a header may mean nothing.
                rows = make(path, rows=scale.num_examples)[1].state()[:ROWS]
                if number % len(uses) != 1:
                    row[COLUMNS[2]] += away(rows, expected)
    return [row]


def others(args):
    row = tally("rows of another parameter")
    changes = [
        {"initial": 2.0},
        {"constraint": "exp"},
        {"loss": kl.losses.LaplaceLoss},
        {"rows": ROWS + 1},
        {"dimension": "scalar"},
        {"optimizer": kl.data_parameters.SparseRMSProp(momentum=0.5)},
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = {
            name: os.path.join(folder, name)
            for name in ("scale.npy", "a.weights.h5", "a.keras")
        }
        model, scale = make(file["scale.npy"])
        fit(model)
        model.save_weights(file["a.weights.h5"])
        model.save(file["a.keras"])

        def compiled(change):
            found = keras.saving.load_model(file["a.keras"], compile=False)
            found.compile("sgd", loss=make(**change)[0].loss)

        for change in changes:
            for use in (
                lambda change: make(file["scale.npy"], **change)[1].values(),
                lambda change: fit(make(file["scale.npy"], **change)[0]),
                lambda change: make(**change)[0].load_weights(
                    file["a.weights.h5"]
                ),
                compiled,
            ):
                row["tried"] += 1
                try:
                    use(change)
                    row[COLUMNS[2]] += 1
                except ValueError:
                    pass
    return [row]


def indices(args):
    row = tally("wide indices")
    for _ in range(args.tries // 4):
        model, scale = make()
        wide = [args.random.randrange(2**31, 2**64) for _ in range(ROWS)]
        row["tried"] += 1
        try:
            fit(model, index=np.array(wide, "uint64"))
            row["other faults"] += 1
        except ValueError:
            row[COLUMNS[2]] += away(scale.state(), np.zeros((ROWS, 2, WIDTH)))
    return [row]


PARTS = {
    f.__name__: f for f in (kills, disks, writers, tables, others, indices)
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    for name, count in {"kills": 90, "disks": 12, "writers": 51}.items():
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.random = random.Random(args.seed)
    rows = [row for name in args.parts for row in PARTS[name](args)]
    print("| " + " | ".join(COLUMNS) + " |\n|---|---:|---:|---:|---:|")
    for row in rows:
        print("| " + " | ".join(str(row[c]) for c in COLUMNS) + " |")
    sys.exit(any(row[c] for row in rows for c in COLUMNS[2:]))


if __name__ == "__main__":
    main()
