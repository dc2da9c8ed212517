"""A process that writes a table until it is killed, without Keras.

    python row_writer.py PATH [ROWS WIDTH BATCH]

Batch by batch it writes the number of the step into every number of the
rows, and says the step on the standard output when the write is done.
"""

import pathlib
import sys
import types

import numpy as np

ROOT = pathlib.Path(__file__).parents[2] / "keras_likelihood"


def import_row_file():
    """`RowFile` without the package around it, which takes seconds."""
    for name in ("keras_likelihood", "keras_likelihood.data_parameters"):
        module = types.ModuleType(name)
        module.__path__ = [str(ROOT.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = module
    from keras_likelihood.data_parameters.row_file import RowFile

    return RowFile


def write(path, num_rows=64, width=20000, batch=32):
    file = import_row_file()(path, num_rows=num_rows, width=width)
    batches = np.arange(num_rows).reshape(-1, batch)
    last = int(file.read(np.arange(num_rows)).max())
    for step in range(last + 1, 10**9):
        rows = np.full((batch, width), step, "float32")
        file.write(batches[step % len(batches)], rows)
        print(step, flush=True)


if __name__ == "__main__":
    write(sys.argv[1], *(int(a) for a in sys.argv[2:]))
