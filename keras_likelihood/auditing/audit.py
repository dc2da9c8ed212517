"""Ranks suspicious examples and writes them to a page."""

import os

from keras_likelihood.auditing import inputs, judging
from keras_likelihood.likelihoods import Softmax
from keras_likelihood.pages.examples import as_names, show_inputs
from keras_likelihood.reading import Reading, read_output
from keras_likelihood.reading.stock_models import with_likelihood
from keras_likelihood.tables.columns import refuse_nan
from keras_likelihood.tables.table_features import takes_missing


def audit(
    model,
    x,
    y,
    output: str | os.PathLike | None = "audit.html",
    *,
    data_parameter=None,
    label_names=None,
    feature_names=None,
    show=None,
    top: int = 100,
    task: str | None = None,
    from_logits: bool | None = None,
    batch_size: int = 256,
    title: str = "Data audit",
) -> judging.AuditReport:
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
    decisions to a file. `kl.audit.apply` applies the file to the labels.

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
    inputs.check_options(task, top=top)
    if output is not None:
        # A missing package must fail before the long computation.
        from keras_likelihood.auditing.page import write_audit
    x, y = inputs.as_arrays(x, y, takes_missing(model))
    show = x if show is None else inputs.as_numpy(show)
    if show is not x and (show.ndim == 0 or len(show) != len(y)):
        raise ValueError(
            f"`show` must have one entry for each of the {len(y)} examples. "
            f"Received: shape {show.shape}"
        )
    shown = show_inputs(show, feature_names)
    reading = read_output(model, x, batch_size=batch_size)
    reading = with_likelihood(reading, y, task, from_logits)
    classes = _classes(reading, task)
    judge = judging.judge_labels if classes else judging.judge_targets
    report = judge(reading, y, data_parameter)
    names = as_names(label_names, "label_names", classes)
    if names is None and classes:
        names = [str(number) for number in range(classes)]
    report.label_names = names
    if output is not None:
        report.path = write_audit(report, shown, output, int(top), title, y)
    return report


def _classes(reading: Reading, task) -> int | None:
    """Number of classes, `None` for regression. Checks the likelihood."""
    shape, likelihood = reading.prediction.shape, reading.likelihood
    name = likelihood.name()
    found = inputs.TASKS[reading.uncertainty_parameter != "temperature"]
    if task not in (None, found):
        raise ValueError(
            f"`task` must be {found!r} for the likelihood {name}. "
            f"Received: {task!r}"
        )
    refuse_nan(reading.prediction, "The model's predictions")
    if found == "regression":
        if reading.is_real:
            return None
        raise ValueError(
            "An audit of a regression needs a `LocationScale` likelihood, such "
            f"as normal. Received: {name}"
        )
    one = issubclass(likelihood, Softmax) or shape[-1] == 1
    if len(shape) != 2 or not one:
        raise ValueError(
            "An audit of labels needs one label per example: logits "
            "(n, classes), or (n, 1) for binary labels. Multi-label outputs "
            "are not supported. Audit one output at a time. "
            f"Received: {name} of shape {shape}"
        )
    return max(shape[1], 2)
