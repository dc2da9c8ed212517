"""Applies the decisions exported from an audit page to the labels."""

import hashlib
import re
from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.files import Path
from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.reading.targets import as_labels
from keras_likelihood.tables.columns import as_number
from keras_likelihood.tables.csv_files import CsvFile

DECISIONS = ("right", "wrong", "unsure")
COLUMNS = ("index", "decision", "label", "given", "audit")
_MARK = re.compile(r"(classes|targets)-(\d+)-(\d+)-([0-9a-f]{24})")


def mark_of(y: Array, classes: int | None) -> str:
    """Fingerprint of class numbers `(n,)`, or of targets without `classes`."""
    kind, dtype = ("classes", "<i8") if classes else ("targets", "<f8")
    digest = hashlib.sha256(np.ascontiguousarray(y, dtype).tobytes())
    count = classes or np.size(y) // len(y)
    return f"{kind}-{count}-{len(y)}-{digest.hexdigest()[:24]}"


def apply(y: Any, path: Path) -> tuple[Array, Array]:
    """Corrects labels with the decisions exported from an audit page.

    The button "Export CSV" of the page writes the file. Labels marked *right*
    or *unsure* are unchanged. A label marked *wrong* is replaced by the label
    chosen on the page. If no label was chosen, the example should be removed.

    ```python
    report = kl.audit(model, x, y, "audit.html")
    # mark labels on the page, press "Export CSV"
    y, keep = kl.auditing.apply(y, "decisions.csv")
    x, y = x[keep], y[keep]
    ```

    Args:
        y: the audited labels or targets, in the same order: class numbers
            `(n,)` or `(n, 1)`, one-hot `(n, classes)`, or targets.
        path: path of the exported file.

    Returns:
        The corrected labels, a new array with the shape of `y`, and a mask
        `(n,)`, False for wrong labels without a replacement.
    """
    y = as_numpy(y)
    rows = _read(path)
    marks = sorted({row["audit"] for row in rows})
    match = _MARK.fullmatch(marks[0])
    if len(marks) > 1 or not match:
        raise ValueError(
            f"{path}: the column `audit` must have the mark of one audit. "
            f"Received: {marks[:3]}"
        )
    n, classes = int(match[3]), int(match[2])
    if y.ndim == 0 or len(y) != n:
        raise ValueError(
            f"{path}: `y` must have the {n} examples that were audited. "
            f"Received: y of shape {y.shape}"
        )
    of_classes = None if match[1] == "targets" else classes
    labels = as_labels(y, (n, classes)) if of_classes else y
    mark = mark_of(labels, of_classes)
    if mark != marks[0]:
        raise ValueError(
            f"{path}: the decisions were made for labels other than `y`. "
            f"Received: decisions on {marks[0]} and labels {mark}"
        )
    keep, corrected, seen = np.ones(n, bool), y.copy(), set()
    for at, row in enumerate(rows):
        try:
            index = _whole(row, "index", n)
            new = _new_label(row, labels[index], of_classes)
            if index in seen:
                raise ValueError(f"example {index} has two decisions")
        except ValueError as error:
            where = f"{path}, row {at}, counted from 0"
            raise ValueError(f"{where}: {error}") from None
        seen.add(index)
        keep[index] = new is not None or row["decision"].lower() != "wrong"
        if new is None:
            continue
        if of_classes and y.size > n:
            new = np.arange(classes) == new
        elif corrected.dtype.kind != "f" and new != int(new):
            corrected = corrected.astype("float64")
        corrected[index] = new
    return corrected, keep


def as_numpy(values: Any) -> Array:
    """Converts a list or a tensor to a NumPy array."""
    if keras.ops.is_tensor(values):
        values = keras.ops.convert_to_numpy(values)
    return np.asarray(values)


def _read(path: Path) -> list[dict[str, str]]:
    names, *lines = CsvFile(path).lines()
    # Spreadsheets may add empty rows.
    rows = [dict(zip(names, row, strict=False)) for row in lines if any(row)]
    if not set(COLUMNS) <= set(names) or not rows:
        raise ValueError(
            f"{path}: the file needs the columns {', '.join(COLUMNS)}, and at "
            f"least one decision. Received: {', '.join(names)[:200]} "
            f"in {len(rows)} row(s)"
        )
    return [{k: row.get(k, "").strip() for k in COLUMNS} for row in rows]


def _new_label(
    row: dict[str, str], label: Any, classes: int | None
) -> float | None:
    """The new label in a checked row, or `None`."""
    decision = row["decision"].lower()
    is_known, allowed = decision in DECISIONS, f"one of {DECISIONS}"
    check_argument("decision", row["decision"], is_known, allowed)
    if classes and row["given"]:
        same = _whole(row, "given", classes) == label
        check_argument("given", row["given"], same, f"{label}, as in `y`")
    if not row["label"]:
        return None
    if classes:
        new = float(_whole(row, "label", classes))
        fits, allowed = new != label, f"a class other than {label}"
    else:
        new = as_number(row["label"])
        fits = np.size(label) == 1 and bool(np.isfinite(new))
        allowed = "a finite number, and empty if there are several targets"
    allowed += ", and empty unless the decision is wrong"
    fits = fits and decision == "wrong"
    check_argument("label", row["label"], fits, allowed)
    return new


def _whole(row: dict[str, str], name: str, count: int) -> int:
    value = as_number(row[name])
    # A spreadsheet may write 3 as 3.0.
    fits = value == np.floor(value) and 0 <= value < count
    allowed = f"a whole number from 0 to {count - 1}"
    check_argument(name, row[name], fits, allowed)
    return int(value)
