"""From a trained model and its data to a page of suspicious examples."""

import os

from keras_likelihood.auditing import inputs, judging
from keras_likelihood.backend.columns import refuse_nan
from keras_likelihood.layers.table_features import takes_missing
from keras_likelihood.likelihoods import Softmax
from keras_likelihood.pages.examples import as_names, show_inputs
from keras_likelihood.reading import Reading, read_output
from keras_likelihood.reading.stock_models import with_likelihood


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
    """Ranks examples by what a model says of them and writes a page.

    The score of an example is, in this order, what its training remembers of
    it (`losses.NoisyLabelsLoss`), the value it learned (a `DataParameter`),
    the temperature or scale the model predicts for it, or the negative
    log-likelihood of its label. High is suspicious.

    ```python
    memory = kl.DataParameter(len(x))
    model.compile("adam", loss=kl.losses.NoisyLabelsLoss(memory))
    model.fit(x, kl.indexed(y))
    report = kl.audit(model, x, y, "audit.html", label_names=names)
    report.to_csv("issues.csv")
    ```

    On the page a person marks labels as right, wrong or unsure. What they
    decided is exported as a file, which `kl.audit.apply` brings back to the
    labels.

    Args:
        model: a `keras.Model`, or the path of a `.keras` file, which is
            loaded in safe mode. A classifier with softmax, sigmoid or logits,
            a regressor, or a `LikelihoodModel` of either.
        x: inputs `(n, ...)` as for `predict`. Images `(n, h, w)` or
            `(n, h, w, channels)` are shown as such, `(n, features)` as rows,
            strings as text.
        y: class numbers `(n,)` or `(n, 1)`, or one-hot `(n, classes)`;
            targets `(n,)` or `(n, units)` for regression.
        output: where to write the page, one self-contained HTML file.
            Defaults to `"audit.html"`; `None` writes none.
        data_parameter: the `DataParameter` of the training, or its values
            `(n,)`. `x` and `y` are then the training data in the order of
            their index. Defaults to that of the model, if it has one of `n`
            examples.
        label_names: the name of each class. Defaults to the class numbers.
        feature_names: the name of each column of `x`. Defaults to numbers.
        show: what the page shows of each example, if it is not `x`: images,
            text `(n,)`, or a table `(n, features)`, in which NaN is a
            missing value. Defaults to `x`.
        top: how many of the highest and of the lowest scores the page shows,
            `>= 1`. Defaults to 100. Suspected examples are all shown.
        task: `"classification"` or `"regression"`. `None` (default) looks at
            the model, then at `y`.
        from_logits: whether a classifier puts out logits. `None` (default)
            looks at its last layer and its loss.
        batch_size: the batch size of the prediction. Defaults to 256.
        title: the title of the page.

    Returns:
        An `AuditReport`.
    """
    inputs.check_options(task, top=top)
    if output is not None:
        # A missing package must not cost the work that follows.
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
    """Number of classes, `None` for regression; refuses what has no audit."""
    shape, likelihood = reading.prediction.shape, reading.likelihood
    name = likelihood.name()
    found = inputs.TASKS[reading.uncertainty_parameter != "temperature"]
    if task not in (None, found):
        raise ValueError(
            f"The likelihood {name} is one of {found}. Received: task={task!r}"
        )
    refuse_nan(reading.prediction, "The model's predictions")
    if found == "regression":
        if reading.is_real:
            return None
        raise ValueError(
            "An audit of numbers needs a `LocationScale` likelihood, such as "
            f"normal. Received: {name}"
        )
    one = issubclass(likelihood, Softmax) or shape[-1] == 1
    if len(shape) != 2 or not one:
        raise ValueError(
            "An audit of labels needs one label per example: logits "
            "(n, classes), or (n, 1) for yes or no. Multi-label outputs are "
            "not supported; audit one output at a time. "
            f"Received: {name} of shape {shape}"
        )
    return max(shape[1], 2)
