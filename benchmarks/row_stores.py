"""Compares tables on disk with LMDB: one batch of rows read and written.

    python benchmarks/row_stores.py

Printed is the processor time of a step in milliseconds, the median of 50,
which other work on the machine disturbs less than the time that passed. No
store waits for the disk. LMDB is optional (`pip install lmdb`).
"""

import importlib.util
import os
import struct
import tempfile
import time

import faults
import numpy as np

SIZES = [(10**6, 2), (10**6, 64), (10_000, 6144)]
BATCHES = (64, 512)


class Own:
    """A `RowFile`, with its rows in a memory map or by calls."""

    def __init__(self, folder, rows, width, mapped):
        faults.import_row_file()
        from keras_likelihood.data_parameters import row_file

        row_file.writes_in_place = lambda path: mapped
        self.file = row_file.RowFile(
            os.path.join(folder, "t.rows"), num_rows=rows, width=width
        )
        for start in range(0, rows, 10_000):
            index = np.arange(start, min(rows, start + 10_000))
            self.file.write(index, np.ones((len(index), width), "float32"))

    def step(self, index):
        self.file.write(index, self.file.read(index) + 1)


class Lmdb:
    """Rows under their number, one transaction a batch."""

    def __init__(self, folder, rows, width, writemap):
        import lmdb

        self.environment = lmdb.open(
            folder,
            map_size=int(rows * (4 * width + 64) * 2.2 + 2**28),
            sync=False,
            metasync=False,
            writemap=writemap,
        )
        row = np.ones(width, "float32").tobytes()
        with self.environment.begin(write=True) as transaction:
            transaction.cursor().putmulti(
                ((struct.pack(">Q", i), row) for i in range(rows)), append=True
            )

    def step(self, index):
        keys = [struct.pack(">Q", number) for number in index.tolist()]
        with self.environment.begin(buffers=True) as transaction:
            rows = [np.frombuffer(transaction.get(k), "<f4") for k in keys]
        rows = np.stack(rows) + 1
        with self.environment.begin(write=True) as transaction:
            for key, row in zip(keys, rows, strict=True):
                transaction.put(key, row.tobytes())


def measure(store, rows):
    """Median milliseconds of a step for each size of batch."""
    rng = np.random.default_rng(0)
    found = []
    for batch in BATCHES:
        times = []
        for _ in range(50):
            index = np.unique(rng.integers(0, rows, 2 * batch))
            index = rng.permutation(index)[:batch]
            start = time.process_time()
            store.step(index)
            times.append(time.process_time() - start)
        found.append(f"batch {batch}: {1e3 * np.median(times):6.2f}")
    return "  ".join(found)


def main():
    kinds = {
        "table, memory map": lambda *a: Own(*a, mapped=True),
        "table, calls": lambda *a: Own(*a, mapped=False),
    }
    if importlib.util.find_spec("lmdb"):
        kinds["LMDB"] = lambda *a: Lmdb(*a, writemap=False)
        kinds["LMDB, writemap"] = lambda *a: Lmdb(*a, writemap=True)
    for rows, width in SIZES:
        for kind, make in kinds.items():
            with tempfile.TemporaryDirectory() as folder:
                store = make(folder, rows, width)
                times = measure(store, rows)
                print(f"{rows:>9,} x {width:<5,} {kind:18s} {times}")
                del store


if __name__ == "__main__":
    main()
