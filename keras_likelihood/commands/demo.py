"""`keras-likelihood demo`: likelihoods compared with ordinary losses."""

import argparse
import os
import pathlib
import sys
import webbrowser
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras.layers import Dense
from markupsafe import Markup
from sklearn.datasets import load_diabetes, load_digits

from keras_likelihood.auditing import train_for_audit
from keras_likelihood.auditing.audit import audit
from keras_likelihood.backend.types import Array
from keras_likelihood.commands.files import UsageError
from keras_likelihood.commands.outputs import check_outputs
from keras_likelihood.layers import RobustRhoHead, ScaleHead
from keras_likelihood.losses import NormalLoss, RobustRhoLoss
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.pages.charts import Chart, reliability
from keras_likelihood.pages.examples import show_inputs
from keras_likelihood.pages.page import Part, Table, write_page
from keras_likelihood.tabular import Regressor


def run(args: argparse.Namespace) -> None:
    folder = pathlib.Path(args.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--output must name a folder that exists or can be created "
            f"({error.strerror}). Received: {folder}"
        ) from error
    labels, page = folder / "demo_audit.html", folder / "demo.html"
    for path in (labels, page):
        check_outputs({"--output": path}, {}, args.force)
    console, parts = args.console, []
    title = "Your loss should be a likelihood"
    console.say(f"{title}.", style="bold")
    stories: tuple[Callable[[bool], Part], ...]
    stories = _curve, _table, lambda quick: _labels(quick, labels)
    with console.progress("examples", 0) as show:
        for number, story in enumerate(stories, start=1):
            part = story(args.quick)
            parts.append(part)
            show(number, len(stories))
            console.say(f"{part.title}.", style="bold")
            console.say(part.summary)
            console.result(**{part.title: part.numbers})
    facts = {"Made by": "keras-likelihood demo"}
    write_page(page, "report.html", title, facts=facts, parts=parts)
    console.facts({"labels": labels, "page": page})
    console.result(labels=labels, page=page)
    console.next_step(
        f"open {page} in a browser. Then check a model of your own, here "
        "model.keras, on data it has not seen, here data.npz:",
        "keras-likelihood checkup model.keras --data data.npz",
    )
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if display and sys.stdout.isatty():
        webbrowser.open(page.absolute().as_uri())


def _curve(quick: bool) -> Part:
    """A curve whose noise grows to the right; 10 % of targets are too large."""
    rng = np.random.default_rng(0)

    def true_curve(x: Array) -> Array:
        return np.asarray(np.sin(2 * x) + 0.5 * x)

    def draw(count: int) -> Array:
        x = rng.uniform(-2, 2, size=(count, 1))
        y = true_curve(x) + (0.15 + 0.05 * x) * rng.normal(size=x.shape)
        is_wrong = rng.random(x.shape) < 0.1
        y += is_wrong * rng.uniform(2, 5, size=x.shape)
        return np.array([x, y], "float32")

    (x, y), (x_test, y_test) = draw(600), draw(2000)
    line = np.linspace(-2, 2, 100, dtype="float32")[:, None]
    shape = {"shape": "global", "scale": "predicted"}
    # A normal loss with one learned scale is equivalent to squared error.
    models = {
        "squared error": ("before", Dense(1), NormalLoss()),
        "normal with a predicted scale": ("after", ScaleHead(1), NormalLoss()),
        "robust rho with a learned shape": (
            "third",
            RobustRhoHead(1, conditioning=shape),
            RobustRhoLoss(),
        ),
    }
    rows, errors, figures = [], {}, []
    for name, (css, head, loss) in models.items():
        keras.utils.set_random_seed(0)
        inputs = keras.Input((1,))
        hidden = Dense(32, activation="relu")(inputs)
        hidden = Dense(32, activation="relu")(hidden)
        model = LikelihoodModel(inputs, head(hidden))
        model.compile(keras.optimizers.Adam(0.005), loss=loss)
        model.fit(x, y, batch_size=60, epochs=3 if quick else 60, verbose=0)
        test = model.predict_distribution(x_test, verbose=0)
        low, high = test.interval(0.9)
        error = np.mean((test.prediction - true_curve(x_test)) ** 2) ** 0.5
        inside = np.mean((low <= y_test) & (y_test <= high))
        values = error, test.nll(y_test).mean(), inside, np.mean(high - low)
        rows.append([name, *(f"{value:.3f}" for value in values)])
        errors[name] = float(error)
        fit = model.predict_distribution(line, verbose=0)
        ends = np.clip([end[:, 0] for end in fit.interval(0.9)], -3, 6)
        chart = Chart((-2, 2), (-3, 6), ("x", "y"), f"The curve under {name}")
        chart.grid()
        chart.dots("data", np.c_[x, np.clip(y, -3, 6)], 2.0)
        chart.band(css, line[:, 0], *ends)
        chart.line("diagonal", np.c_[line, true_curve(line)])
        chart.line(css, np.c_[line, np.clip(fit.prediction, -3, 6)])
        keys = {css: f"{name}, with its 90 % interval", "data": "data"}
        figures.append(chart.figure(keys, "dashed: true curve"))
    words = [f"{name} {error:.2f}" for name, error in errors.items()]
    columns = ["loss", "RMSE", "NLL", "in 90 % interval", "mean width"]
    return Part(
        "Gross errors do not bend the curve",
        "One target in ten is far too large. Distance (RMSE) to the true "
        f"curve: {', '.join(words)}.",
        [*figures, Table(columns, rows)],
        numbers=errors,
    )


def _table(quick: bool) -> Part:
    """442 patients, 10 measurements, disease progression after a year."""
    x, y = load_diabetes(return_X_y=True)
    train, test = np.split(np.random.default_rng(0).permutation(len(x)), [242])
    model = Regressor(epochs=2 if quick else 50, random_state=0)
    model.fit(x[train], y[train])
    curve, rows = [], []
    for percent in range(10, 100, 10):
        low, high = model.interval(x[test], percent / 100)
        inside = float(np.mean((low <= y[test]) & (y[test] <= high)))
        name, width = f"{percent} %", np.mean(high - low)
        point = {"expected": percent / 100, "observed": inside}
        curve.append({"name": name, "count": len(test), **point})
        rows.append([name, f"{inside:.1%}", f"{width:.0f}"])
    return Part(
        "A table in, a distribution out",
        "The target is the diabetes progression of real patients. "
        f"`kl.tabular.Regressor` is trained on {len(train)} rows and predicts "
        "a distribution for each new patient. The 90 % intervals contain the "
        f"target of {inside:.0%} of {len(test)} patients.",
        [
            reliability({"after": curve}, "promised", "observed"),
            Table(["interval", "contains", "mean width"], rows),
        ],
        numbers={str(row["name"]): row["observed"] for row in curve},
    )


def _labels(quick: bool, page: Any) -> Part:
    """1,797 digits, with labels of which 15 % are wrong, and their page."""
    x, true = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    moved = rng.random(len(true)) < 0.15
    y = np.where(moved, (true + rng.integers(1, 10, len(true))) % 10, true)
    used = slice(300 if quick else None)
    x, y, true = x.reshape(-1, 8, 8)[used], y[used], true[used]
    model = train_for_audit(x, y, epochs=2 if quick else None)
    title = "Digits with wrong labels (keras_likelihood demo)"
    report = audit(model, x, y, page, title=title)
    is_wrong, suspects = y != true, report.suspects()
    count, hits = int(is_wrong.sum()), int(is_wrong[suspects].sum())
    ranked = int(is_wrong[report.ranked()[:count]].sum())
    seen, predicted = show_inputs(x), report.label_issues["predicted_label"]
    rows = [
        [seen.cell(i), *(str(v[i]) for v in (y, predicted, true))]
        for i in report.ranked()[:12].tolist()
    ]
    columns = ["digit", "given label", "predicted", "truth"]
    link = '<p>On <a href="{}">the page of the labels</a> you can mark them '
    return Part(
        "Wrong labels are found",
        f"{count} of {len(y):,} labels are wrong. The audit suspects "
        f"{len(suspects)}, of which {hits} are wrong. Of the {count} labels it "
        f"ranks worst, {ranked} are wrong.",
        [
            Table(columns, rows, "The most suspicious labels"),
            Markup(link + "as right or wrong.</p>").format(page.name),
        ],
        numbers={"wrong": count, "suspected": len(suspects), "hits": hits},
    )
