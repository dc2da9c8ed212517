"""Ranks suspicious examples and writes them to a page."""

from typing import Any

import keras
import numpy as np

from keras_likelihood.auditing import report
from keras_likelihood.auditing.decisions import as_numpy
from keras_likelihood.backend.files import Path
from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods import Softmax
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.pages.examples import as_names, show_inputs
from keras_likelihood.reading import Reading, read_output
from keras_likelihood.tables.columns import refuse_nan
from keras_likelihood.tables.table_features import takes_missing

TASKS = ("classification", "regression")


def audit(
    model: Any,
    x: Any,
    y: Any,
    output: Path | None = "audit.html",
    *,
    data_parameter: Any = None,
    label_names: Any = None,
    feature_names: Any = None,
    show: Any = None,
    top: int = 100,
    task: str | None = None,
    from_logits: bool | None = None,
    batch_size: int = 256,
    title: str = "Data audit",
) -> report.AuditReport:
    """Ranks examples by how suspicious they are and writes a review page.

    The score of an example is the first of these that exists: its training
    memory (`losses.NoisyLabelsLoss`), its learned value (a `DataParameter`),
    the temperature or scale that the model predicts for it, or the negative
    log-likelihood of its label. Higher scores are more suspicious.

    ```python
    memory = kl.DataParameter(len(x))
    model.compile("adam", loss=kl.losses.NoisyLabelsLoss(memory))
    model.fit(x, kl.indexed(y))
    report = kl.audit(model, x, y, "audit.html", label_names=names)
    report.to_csv("issues.csv")
    ```

    On the page you mark labels as right, wrong or unsure, and export your
    decisions to a file. `kl.auditing.apply` applies the file to the labels.

    Args:
        model: a `keras.Model`, or the path of a `.keras` file, which is
            loaded in safe mode. It may be a classifier with softmax, sigmoid
            or logits, a regressor, or a `LikelihoodModel`.
        x: inputs `(n, ...)` as for `predict`. Images `(n, h, w)` or
            `(n, h, w, channels)` are shown as images, `(n, features)` as
            rows, strings as text.
        y: class numbers `(n,)` or `(n, 1)`, or one-hot `(n, classes)`;
            targets `(n,)` or `(n, units)` for regression.
        output: path of the page, a self-contained HTML file. Defaults to
            `"audit.html"`. If `None`, no page is written.
        data_parameter: the `DataParameter` used in training, or its values
            `(n,)`. `x` and `y` must then be the training data, ordered by
            index. Defaults to the model's own, if it has `n` examples.
        label_names: the name of each class. Defaults to the class numbers.
        feature_names: the name of each column of `x`. Defaults to numbers.
        show: what the page shows for each example: images, text `(n,)`, or a
            table `(n, features)` in which NaN is a missing value. Defaults
            to `x`.
        top: number of highest and of lowest scores on the page, `>= 1`.
            Defaults to 100. All suspected examples are shown.
        task: `"classification"` or `"regression"`. If `None` (default), it is
            inferred from the model, then from `y`.
        from_logits: whether a classifier returns logits. If `None` (default),
            it is inferred from the last layer and the loss.
        batch_size: the batch size for prediction. Defaults to 256.
        title: the title of the page.

    Returns:
        An `AuditReport`.
    """
    check_task(task)
    check_argument("top", top, int(top) == top >= 1, "a whole number >= 1")
    if output is not None:
        # A missing package must fail before the long computation.
        from keras_likelihood.auditing.page import write_audit
    x, y = as_arrays(x, y, takes_missing(model))
    show = x if show is None else as_numpy(show)
    if show is not x and (show.ndim == 0 or len(show) != len(y)):
        raise ValueError(
            f"`show` must have one entry for each of the {len(y)} examples. "
            f"Received: shape {show.shape}"
        )
    shown = show_inputs(show, feature_names)
    reading = read_output(model, x, batch_size=batch_size)
    reading = reading.with_likelihood(y, task, from_logits)
    classes = _classes(reading, task)
    rank = report.rank_labels if classes else report.rank_targets
    audited = rank(reading, y, data_parameter)
    numbers = list(map(str, range(classes))) if classes else None
    names = as_names(label_names, "label_names", classes)
    audited.label_names = names or numbers
    if output is not None:
        audited.path = write_audit(audited, shown, output, int(top), title, y)
    return audited


def _classes(reading: Reading, task: str | None) -> int | None:
    """Number of classes, `None` for regression. Checks the likelihood."""
    shape, likelihood = reading.prediction.shape, reading.likelihood
    name = likelihood.name()
    of_model = TASKS[reading.uncertainty_parameter != "temperature"]
    allowed = f"{of_model!r} for the likelihood {name}"
    check_argument("task", task, task in (None, of_model), allowed)
    refuse_nan(reading.prediction, "The model's predictions")
    if of_model == "regression":
        allowed = "`LocationScale`, such as normal, for an audit of targets"
        check_argument("model", name, reading.is_real, allowed)
        return None
    one = issubclass(likelihood, Softmax) or shape[-1] == 1
    if len(shape) != 2 or not one:
        raise ValueError(
            "An audit of labels needs outputs (n, classes) or (n, 1). "
            "Multi-label outputs are not supported. "
            f"Received: {name} of shape {shape}"
        )
    return max(int(shape[1]), 2)


def check_task(task: str | None) -> None:
    """Raises an error for an unknown task."""
    is_known = task in (None, *TASKS)
    check_argument("task", task, is_known, f"one of {TASKS} or None")


def as_arrays(x: Any, y: Any, missing: bool = False) -> tuple[Any, Array]:
    """Returns finite arrays of equal length; `x` may be a structure."""
    check_argument("y", y, y is not None, "an array of labels or targets")
    fits = not hasattr(x, "element_spec") and not hasattr(x, "__next__")
    check_argument("x", x, fits, "an array, or several of equal length")
    parts = x.values() if isinstance(x, dict) else x
    several = isinstance(x, dict | tuple | list)
    several = several and any(hasattr(part, "shape") for part in parts)
    x = keras.tree.map_structure(as_numpy, x) if several else as_numpy(x)
    y = as_numpy(y)
    for part in [y, *keras.tree.flatten(x)]:
        if part.ndim == 0 or len(part) != len(y) or not len(y):
            raise ValueError(
                "`x` and `y` must have one entry per example. "
                f"Received: x of shape {part.shape} and y of shape {y.shape}"
            )
        if missing and part is not y and part.dtype.kind == "f":
            part = np.where(np.isnan(part), 0, part)
        refuse_nan(part, "`y`" if part is y else "`x`")
    return x, y
