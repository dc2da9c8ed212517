"""Counts lost and silently wrong rows when files and processes are attacked.

    KERAS_BACKEND=torch python benchmarks/faults.py
    python benchmarks/faults.py tables

`kills` ends a training with SIGKILL or SIGTERM at random moments. `fit` saves a
checkpoint after every batch. Each checkpoint must contain a model and rows of
the same step, and each value in the table must be from the last step or the
step before. `writers` starts second writers, also through links, and readers
while a training runs. `tables` damages tables: they must be refused and not
change.
"""

import argparse
import multiprocessing
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import keras_likelihood as kl

COLUMNS = ("kind", "tried", "rows lost or wrong", "hangs", "other faults")
ROWS, BATCH, WIDTH, EPOCHS = 40, 8, 50, 200
KILLS, WRITERS, TABLES = 60, 51, 200
RANDOM = random.Random(0)


def make(path=None, rows=ROWS):
    """A model with a table in memory, or in a file."""
    table = path and kl.data_parameters.FileTable(path)
    scale = kl.DataParameter(rows, dimension="element", table=table)
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(WIDTH, kernel_initializer="ones")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.001), loss=kl.losses.NormalLoss(scale=scale)
    )
    return model, scale


def fit(model, *callbacks, epochs=1):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(ROWS, 3)).astype("float32")
    y = rng.normal(size=(ROWS, WIDTH)).astype("float32")
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0}
    y = kl.indexed(y)
    model.fit(x, y, epochs=epochs, callbacks=[*callbacks], **options)


def states(epochs):
    """Kernel and rows before each step, with a table in memory."""
    model, scale = make()
    before = []

    class Note(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            # Reading `model` updates its variables on JAX.
            before.append((self.model.get_weights()[0], scale.state()))

    fit(model, Note(), epochs=epochs)
    return [*before, (model.get_weights()[0], scale.state())]


def away(rows, *expected) -> int:
    """Number of rows that differ from all that are expected."""
    close = np.isclose(expected, rows, rtol=1e-4, atol=1e-6).any(axis=0)
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


def kills():
    row, expected = tally("training killed"), states(EPOCHS)
    rows_only = np.stack([rows for _, rows in expected])
    for number in range(KILLS):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "scale.npy")
            checkpoint = os.path.join(folder, "model.weights.h5")
            child = start(train, folder, path)
            row["hangs"] += not wait_for(checkpoint, child)
            time.sleep(RANDOM.random())
            how = (signal.SIGKILL, signal.SIGTERM)[number % 4 == 3]
            os.kill(child.pid, how)
            child.join()
            row["tried"] += 1
            row["other faults"] += child.exitcode != -how
            # The table as it was left, which may have one row that is torn.
            left = np.load(path)
            step = int(np.argmin(np.abs(rows_only - left).sum(axis=(1, 2, 3))))
            near = rows_only[max(0, step - 1) : step + 2]
            row[COLUMNS[2]] += away(left, *near)
            model, scale = make(path)
            model.load_weights(checkpoint)
            kernel = model.get_weights()[0]
            gaps = [np.abs(kernel - k).max() for k, _ in expected]
            row[COLUMNS[2]] += away(scale.state(), expected[np.argmin(gaps)][1])
            row["other faults"] += min(gaps) > 1e-4
            own = {"scale.npy", "scale.npy.json", "model.weights.h5"}
            # A process that is killed may leave the file it was writing.
            row["other faults"] += len(set(os.listdir(folder)) - own) > 1
    return [row]


def writers():
    second, reader = tally("second writer"), tally("reader during a training")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scale.npy")
        child = start(train, folder, path, 50 * EPOCHS)
        checkpoint = os.path.join(folder, "model.weights.h5")
        second["hangs"] += not wait_for(checkpoint, child)
        for suffix in ("", ".json"):
            os.symlink(path + suffix, os.path.join(folder, f"soft.npy{suffix}"))
            os.link(path + suffix, os.path.join(folder, f"hard.npy{suffix}"))
        for number in range(WRITERS):
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


def tables():
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
        for number in range(TABLES):
            content = damage(good, RANDOM)
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


PARTS = {f.__name__: f for f in (kills, writers, tables)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=PARTS)
    rows = [row for name in parser.parse_args().parts for row in PARTS[name]()]
    print("| " + " | ".join(COLUMNS) + " |\n|---|---:|---:|---:|---:|")
    for row in rows:
        print("| " + " | ".join(str(row[c]) for c in COLUMNS) + " |")
    sys.exit(any(row[c] for row in rows for c in COLUMNS[2:]))


if __name__ == "__main__":
    main()
