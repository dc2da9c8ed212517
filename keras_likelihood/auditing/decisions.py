"""Applies the decisions exported from an audit page to the labels."""

import csv
import hashlib
import io
import os
import re

import numpy as np

from keras_likelihood.auditing.inputs import as_numpy
from keras_likelihood.backend.files import open_regular
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.reading.targets import as_labels
from keras_likelihood.tables.columns import as_number

DECISIONS = ("right", "wrong", "unsure")
COLUMNS = ("index", "decision", "label", "given", "audit")
_MARK = re.compile(r"(classes|targets)-(\d+)-(\d+)-([0-9a-f]{24})")


def mark_of(y, classes: int | None) -> str:
    """Fingerprint of the labels, a short text.

    Args:
        y: class numbers `(n,)`, or targets `(n, ...)`.
        classes: number of classes, or `None` for targets.
    """
    kind = "targets" if classes is None else "classes"
    y = np.ascontiguousarray(y, dtype="<f8" if classes is None else "<i8")
    count = y.size // len(y) if classes is None else classes
    digest = hashlib.sha256(y.tobytes()).hexdigest()[:24]
    return f"{kind}-{count}-{len(y)}-{digest}"


def apply(y, path: str | os.PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Corrects labels with the decisions exported from an audit page.

    The button "Export CSV" of the page writes the file. Labels marked *right*
    or *unsure* are unchanged. A label marked *wrong* is replaced by the label
    chosen on the page. If no label was chosen, the example should be removed.

    ```python
    report = kl.audit(model, x, y, "audit.html")
    # mark labels on the page, press "Export CSV"
    y, keep = kl.audit.apply(y, "decisions.csv")
    x, y = x[keep], y[keep]
    ```

    An error is raised if the file belongs to other labels, or has an example,
    decision or label that does not exist.

    Args:
        y: the audited labels or targets, in the same order: class numbers
            `(n,)` or `(n, 1)`, one-hot `(n, classes)`, or targets.
        path: path of the exported file.

    Returns:
        The corrected labels, a new array with the shape of `y`, and a mask
        `(n,)` of the examples to keep. The mask is False for wrong labels
        without a replacement.
    """
    y = as_numpy(y)
    rows = _read(path)
    marks = {row["audit"] for row in rows}
    mark = _MARK.fullmatch(min(marks))
    if len(marks) > 1 or not mark:
        raise ValueError(
            f"{path}: the column `audit` must have the mark of one audit. "
            f"Received: {sorted(marks)[:3]}"
        )
    classes = int(mark[2]) if mark[1] == "classes" else None
    n = int(mark[3])
    if y.ndim == 0 or len(y) != n:
        raise ValueError(
            f"{path}: `y` must have the {n} examples that were audited. "
            f"Received: y of shape {y.shape}"
        )
    given = y if classes is None else as_labels(y, (n, classes))
    if mark_of(given, classes) != mark[0]:
        raise ValueError(
            f"{path}: the decisions were made for labels other than `y`. "
            f"Received: decisions on {mark[0]} and labels "
            f"{mark_of(given, classes)}"
        )
    keep, corrected, seen = np.ones(n, bool), y.copy(), set()
    for line, row in enumerate(rows, start=2):
        try:
            index, is_wrong, label = _read_row(row, given, classes)
            if index in seen:
                raise ValueError(f"example {index} has two decisions")
        except ValueError as error:
            raise ValueError(f"{path}, row {line}: {error}") from None
        seen.add(index)
        keep[index] = not is_wrong or label is not None
        if label is None:
            continue
        if classes is not None and y.size > n:
            corrected[index] = np.arange(classes) == label
            continue
        if corrected.dtype.kind != "f" and label != int(label):
            corrected = corrected.astype("float64")
        corrected[index] = label
    return corrected, keep


def _read(path):
    try:
        opened = open_regular(path)
        with io.TextIOWrapper(opened, "utf-8-sig", newline="") as file:
            # Spreadsheets in some locales use semicolons.
            separator = "," if "," in file.readline() else ";"
            file.seek(0)
            reader = csv.DictReader(file, delimiter=separator)
            rows = [row for row in reader if any(row.values())]
            names = reader.fieldnames or []
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: the file is not a .csv ({error})") from error
    if not set(COLUMNS) <= set(names):
        raise ValueError(
            f"{path}: the file needs the columns {', '.join(COLUMNS)}. "
            f"Received: {', '.join(map(str, names))[:200]}"
        )
    if not rows:
        raise ValueError(f"{path}: the file has no decisions")
    return [{k: (row[k] or "").strip() for k in COLUMNS} for row in rows]


def _read_row(row, given, classes):
    """Index of an example, whether its label is wrong, and the new label."""
    index, decision = _whole(row, "index", len(given)), row["decision"].lower()
    own = given[index]
    shown, allowed = row["decision"][:40], f"one of {DECISIONS}"
    check_argument("decision", shown, decision in DECISIONS, allowed)
    if classes and row["given"] and _whole(row, "given", classes) != own:
        raise ValueError(
            f"example {index} has the label {own}. "
            f"Received: given={row['given']}"
        )
    if not row["label"]:
        return index, decision == "wrong", None
    label = (
        _whole(row, "label", classes) if classes else as_number(row["label"])
    )
    if classes is None and (own.size > 1 or not np.isfinite(label)):
        raise ValueError(
            "`label` must be a finite number, or empty for an example with "
            f"several targets. Received: {row['label'][:40]!r}"
        )
    if classes and label == own:
        raise ValueError(
            f"the new label of example {index} must differ from the given "
            f"one. Received: {label}"
        )
    if decision != "wrong":
        raise ValueError(
            "`label` must be empty unless the decision is wrong. "
            f"Received: decision={decision}, label={label}"
        )
    return index, True, label


def _whole(row, name, count):
    value = as_number(row[name])
    # A spreadsheet may write 3 as 3.0.
    fits = value == np.floor(value) and 0 <= value < count
    allowed = f"a whole number from 0 to {count - 1}"
    check_argument(name, row[name][:40], fits, allowed)
    return int(value)
