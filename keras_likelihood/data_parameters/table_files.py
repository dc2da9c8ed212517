"""Tables on disk as files: whether they are in order, and copies of them."""

import contextlib
import dataclasses
import os

import numpy as np

from keras_likelihood.data_parameters.row_file import RowFile
from keras_likelihood.data_parameters.row_header import RowHeader
from keras_likelihood.data_parameters.row_space import create
from keras_likelihood.data_parameters.writer_lock import WriterLock


@dataclasses.dataclass
class TableReport:
    """What `verify` found.

    Args:
        path: of the table.
        rows: number of rows, or `None` if the file is no table.
        owner: whose rows these are.
        written: rows that were ever written.
        damaged: numbers of the rows that do not fit their check.
        problems: a sentence for each thing that is wrong.
    """

    path: str
    rows: int | None = None
    owner: dict = dataclasses.field(default_factory=dict)
    written: int = 0
    damaged: list = dataclasses.field(default_factory=list)
    problems: list = dataclasses.field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self):
        lines = [f"{self.path}: {'in order' if self.ok else 'NOT in order'}"]
        if self.rows is not None:
            lines.append(f"  {self.written:,} of {self.rows:,} rows written")
        lines += [f"  {name}: {value}" for name, value in self.owner.items()]
        lines += [f"  {problem}" for problem in self.problems]
        return "\n".join(lines)


def verify(path: str) -> TableReport:
    """Reads a whole table on disk and says whether it is in order.

    It changes nothing, takes no lock and may run beside a training.

    ```python
    report = kl.data_parameters.verify("scale.rows")
    print(report)
    ```
    """
    report = TableReport(os.path.abspath(path))
    try:
        file = RowFile.of(path)
    except (ValueError, OSError) as error:
        report.problems.append(str(error))
        return report
    report.rows, report.owner = file.header.num_rows, file.header.owner
    with contextlib.closing(file):
        for first, part in _parts(file):
            _verify_part(file, first, part, report)
    if report.damaged:
        report.problems.append(
            f"{len(report.damaged):,} row(s) do not fit their check number or "
            f"are not finite, such as {report.damaged[:5]}"
        )
    return report


def _verify_part(file, first, numbers, report):
    checked, damaged = file.examine(numbers)
    damaged |= ~np.isfinite(checked[:, :-1]).all(axis=1)
    report.written += int(checked.view("<u4").any(axis=1).sum())
    report.damaged += (first + np.flatnonzero(damaged)).tolist()


def copy(path: str, target: str):
    """Copies a table on disk as it is between two batches.

    A table that a training of another process writes is refused, with the
    name of that process; that training can copy it itself, with
    `DataParameter.save`. The copy has its name only when it is complete.

    Args:
        path: of the table.
        target: where no file is.
    """
    RowHeader.read(path)
    lock = WriterLock(os.path.abspath(path), shared=True)
    try:
        with contextlib.closing(RowFile.of(path)) as file:
            copy_rows(file, target)
    finally:
        lock.release()


def copy_rows(file: RowFile, target: str):
    """Writes the rows of an open table to a new one at `target`."""
    target = os.path.abspath(target)
    if os.path.lexists(target):
        raise FileExistsError(f"`target` must not exist. Received: {target!r}")
    header = file.header

    def fill(write):
        for first, part in _parts(file):
            checked = file.read_checked(part)
            if checked.view("<u4").any():
                write(first, checked)

    own = RowHeader(header.num_rows, header.width, header.owner)
    with file.resting():
        create(target, own, fill)


def _parts(file):
    rows, width = file.shape
    stride = max(1, 2**22 // (width + 1))
    for first in range(0, rows, stride):
        yield first, slice(first, min(rows, first + stride))
