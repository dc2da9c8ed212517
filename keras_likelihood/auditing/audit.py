"""From a trained model and its data to a page of suspicious examples."""

import os

from keras_likelihood.auditing.inputs import as_arrays, as_names
from keras_likelihood.auditing.judged_labels import judge_labels
from keras_likelihood.auditing.judged_targets import judge_targets
from keras_likelihood.auditing.page import write_page
from keras_likelihood.auditing.reading import read_model
from keras_likelihood.auditing.report import AuditReport
from keras_likelihood.auditing.shown_inputs import show_inputs


def audit(
    model,
    x,
    y,
    output: str | os.PathLike | None = "audit.html",
    *,
    data_parameter=None,
    label_names=None,
    feature_names=None,
    top: int = 100,
    task: str | None = None,
    from_logits: bool | None = None,
    batch_size: int = 256,
    title: str = "Data audit",
) -> AuditReport:
    """Ranks examples by what a model says of them and writes a page.

    The score of an example is, in this order, the value it learned (a
    `DataParameter`), the temperature or scale the model predicts for it, or
    the negative log-likelihood of its label. High is suspicious.

    ```python
    temperature = kl.DataParameter(len(x), learning_rate=0.02)
    model.compile("adam", loss=kl.losses.SoftmaxLoss(temperature=temperature))
    model.fit(x, kl.indexed(y), callbacks=[temperature])
    report = kl.audit(model, x, y, "audit.html", label_names=names)
    report.to_csv("issues.csv")
    ```

    Args:
        model: a `keras.Model`, or the path of a `.keras` file, which is
            loaded in safe mode. A classifier with softmax, sigmoid or logits,
            a regressor, or a `LikelihoodModel` of either.
        x: inputs `(n, ...)` as for `predict`. Images `(n, h, w)` or
            `(n, h, w, channels)` are shown as such, `(n, features)` as rows.
        y: class numbers `(n,)` or `(n, 1)`, or one-hot `(n, classes)`;
            targets `(n,)` or `(n, units)` for regression.
        output: where to write the page, one self-contained HTML file.
            Defaults to `"audit.html"`; `None` writes none.
        data_parameter: the `DataParameter` of the training, or its values
            `(n,)`. `x` and `y` are then the training data in the order of
            their index. Defaults to that of the model, if it has one of `n`
            examples.
        label_names: one name a class. Defaults to the class numbers.
        feature_names: one name a column of `x`. Defaults to their numbers.
        top: how many examples a section of the page holds at most, `>= 1`.
            Defaults to 100.
        task: `"classification"` or `"regression"`. `None` (default) looks at
            the model, then at `y`.
        from_logits: whether a classifier puts out logits. `None` (default)
            looks at its last layer.
        batch_size: of the prediction. Defaults to 256.
        title: of the page.

    Returns:
        An `AuditReport`.
    """
    if int(top) != top or top < 1:
        raise ValueError(f"`top` must be a whole number >= 1. Received: {top}")
    x, y = as_arrays(x, y)
    shown = show_inputs(x, feature_names)
    reading = read_model(model, x, y, task, from_logits, batch_size)
    judge = judge_labels if reading.classes else judge_targets
    findings = judge(reading, y, data_parameter)
    report = AuditReport(
        task=reading.task,
        scores=findings.score.values,
        score_name=findings.score.name,
        score_meaning=findings.score.meaning,
        label_issues=findings.label_issues,
        nll=findings.nll,
        columns=findings.columns,
        rule=findings.rule,
    )
    names = as_names(label_names, "label_names", reading.classes)
    if names is None and reading.classes:
        names = [str(number) for number in range(reading.classes)]
    if output is not None:
        report.path = write_page(report, shown, output, names, int(top), title)
    return report
