"""The four examples of `keras-likelihood demo`."""

import functools
import itertools

import keras
import numpy as np
from keras.layers import Dense
from markupsafe import Markup

from keras_likelihood.auditing import audit, train_for_audit
from keras_likelihood.commands.tasks import coverage_curve
from keras_likelihood.layers import RobustRhoHead, ScaleHead
from keras_likelihood.losses import NormalLoss, RobustRhoLoss
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.pages.charts import Chart, reliability
from keras_likelihood.pages.examples import show_inputs
from keras_likelihood.pages.page import Part, Table
from keras_likelihood.regularizers import MultiLasso

TITLE = "Digits with wrong labels (keras_likelihood demo)"
"""Title of the page of digits. The command recognises the page by it."""
_RobustHead = functools.partial(
    RobustRhoHead, conditioning={"shape": "global", "scale": "predicted"}
)
_LOSSES = {
    "squared error": (Dense, NormalLoss, "before"),
    "normal, predicted scale": (ScaleHead, NormalLoss, "after"),
    "robust rho, learned shape": (_RobustHead, RobustRhoLoss, "third"),
}
"""Last layer, loss, and the CSS class of its lines in figures.

A normal loss with one learned scale is equivalent to squared error.
"""
_SHOWN_DIGITS = 12


def run(page, *, console, quick: bool = False) -> list[Part]:
    """Runs and prints the examples, and writes the page of wrong labels.

    Returns the examples as parts of a page. `quick` trains for a few epochs.
    """
    console.say("Your loss should be a likelihood.", style="bold")
    epochs = 3 if quick else 120
    with console.progress("training models", 0) as on_model:
        done = itertools.count(1)

        def tick():
            on_model(next(done), 7)

        parts = [
            _curve_story(epochs, tick),
            _table_story(quick, tick),
            _label_story(page, quick, tick),
            _weight_story(quick, tick),
        ]
    for part in parts:
        console.say(f"{part.title}.", style="bold")
        console.say(part.summary)
        for table in (b for b in part.body if isinstance(b, Table)):
            if not isinstance(table.rows[0][0], Markup):
                console.table(table.columns, table.rows)
        console.result(**{part.title: part.numbers})
    return parts


def _regressor(head, loss, x, y, epochs):
    """A small network with a given last layer and loss."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input(x.shape[1:])
    hidden = Dense(32, activation="relu")(inputs)
    hidden = Dense(32, activation="relu")(hidden)
    model = LikelihoodModel(inputs, head(1)(hidden))
    model.compile(keras.optimizers.Adam(0.005), loss=loss())
    stop = keras.callbacks.EarlyStopping(patience=25, restore_best_weights=True)
    options = {"validation_split": 0.2, "verbose": 0, "callbacks": [stop]}
    # 60 divides the numbers of rows for training and validation. JAX would
    # compile again for a smaller last batch.
    model.fit(x, y, batch_size=60, epochs=epochs, **options)
    return model


def _predict(model, x):
    return model.predict_distribution(x, batch_size=len(x), verbose=0)


def _rmse(found, truth):
    return float(np.sqrt(np.mean((found - truth) ** 2)))


def _table(kind, scores):
    rows = [
        [name, *(f"{value:.3f}" for value in row.values())]
        for name, row in scores.items()
    ]
    return Table([kind, *next(iter(scores.values()))], rows)


def _curve_story(epochs, tick):
    """A curve whose noise grows to the right; 10 % of targets are too large."""
    rng = np.random.default_rng(0)

    def true_curve(x):
        return np.sin(2 * x) + 0.5 * x

    def draw(count):
        x = rng.uniform(-2, 2, size=(count, 1))
        scale = 0.05 + 0.2 * (x + 2) / 4
        y = true_curve(x) + scale * rng.normal(size=x.shape)
        wrong = rng.random(x.shape) < 0.1
        y = np.where(wrong, y + rng.uniform(2, 5, size=x.shape), y)
        return x.astype("float32"), y.astype("float32")

    (x, y), (x_test, y_test) = draw(600), draw(2000)
    line = np.linspace(-2, 2, 100, dtype="float32")[:, None]
    scores, figures = {}, []
    for name, (head, loss, css) in _LOSSES.items():
        model = _regressor(head, loss, x, y, epochs)
        tick()
        found = _predict(model, x_test)
        low, high = found.interval(0.9)
        scores[name] = {
            "RMSE": _rmse(found.prediction, true_curve(x_test)),
            "NLL": float(np.mean(found.nll(y_test))),
            "in 90 % interval": np.mean((low <= y_test) & (y_test <= high)),
            "mean width": np.mean(high - low),
        }
        found = _predict(model, line)
        ends = np.clip([end[:, 0] for end in found.interval(0.9)], -3, 6)
        chart = Chart((-2, 2), (-3, 6), ("x", "y"), f"The curve under {name}")
        chart.grid()
        chart.dots("data", np.c_[x, np.clip(y, -3, 6)], 2.0)
        chart.band(css, line[:, 0], *ends)
        chart.line("diagonal", np.c_[line, true_curve(line)])
        chart.line(css, np.c_[line, np.clip(found.prediction, -3, 6)])
        keys = {css: f"{name}, with its 90 % interval", "data": "data"}
        figures.append(chart.figure(keys, "dashed: true curve"))
    errors = [f"{row['RMSE']:.2f} with {name}" for name, row in scores.items()]
    return Part(
        "Gross errors do not bend the curve",
        "One target in ten is far too large. The distance (RMSE) to the true "
        f"curve is {', '.join(errors)}.",
        [*figures, _table("loss", scores)],
        numbers=scores,
    )


def _table_story(quick, tick):
    """442 patients, 10 measurements, disease progression after a year."""
    from sklearn.datasets import load_diabetes

    from keras_likelihood.tabular import Regressor

    x, y = load_diabetes(return_X_y=True)
    train, test = np.split(np.random.default_rng(0).permutation(len(x)), [242])
    model = Regressor(epochs=2 if quick else 50, random_state=0)
    model.fit(x[train], y[train])
    tick()
    x, y = x[test], y[test]
    levels, intervals = (0.5, 0.8, 0.9), {}
    for level in levels:
        low, high = model.interval(x, level)
        intervals[f"{level:.0%}"] = {
            "contains": float(np.mean((low <= y) & (y <= high))),
            "mean width": float(np.mean(high - low)),
        }
    found = model.predict_distribution(x)
    curves = {"after": coverage_curve(found.cdf(y[:, None]).clip(0, 1))}
    return Part(
        "A table in, a distribution out",
        "The target is the diabetes progression of real patients. "
        f"`kl.tabular.Regressor` is trained on {len(train)} rows and predicts "
        "a distribution for each new patient. The 90 % intervals contain the "
        f"target of {intervals['90%']['contains']:.0%} of {len(y)} patients.",
        [
            reliability(curves, "promised", "observed", {"after": "new rows"}),
            _table("interval", intervals),
        ],
        numbers=intervals,
    )


def _label_story(page, quick, tick):
    """1,797 digits, with labels of which 15 % are wrong."""
    from sklearn.datasets import load_digits

    x, true = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    moved = rng.random(len(true)) < 0.15
    y = np.where(moved, (true + rng.integers(1, 10, len(true))) % 10, true)
    used = slice(300 if quick else None)
    x, y, true = x.reshape(-1, 8, 8)[used], y[used], true[used]
    network = train_for_audit(x, y, epochs=2 if quick else None)
    options = {"data_parameter": network.data_parameter, "title": TITLE}
    report = audit(network.model, x, y, page, **options)
    tick()
    wrong, suspects = y != true, report.suspects()
    count, hits = int(wrong.sum()), int(wrong[suspects].sum())
    ranked = int(wrong[report.ranked()[:count]].sum())
    seen, predicted = show_inputs(x), report.label_issues["predicted_label"]
    shown = suspects if len(suspects) else report.ranked()
    return Part(
        "Wrong labels are found",
        f"{count} of {len(y):,} labels are wrong. The audit suspects "
        f"{report.num_issues}, of which {hits} are wrong. Of the {count} "
        f"labels it ranks worst, {ranked} are wrong.",
        [
            Table(
                ["digit", "given label", "predicted", "truth"],
                [
                    [seen.cell(i), str(y[i]), str(predicted[i]), str(true[i])]
                    for i in shown[:_SHOWN_DIGITS].tolist()
                ],
                "The most suspicious labels",
            ),
            Markup(
                '<p>On <a href="{}">the page of the labels</a> you can mark '
                "them as right or wrong.</p>"
            ).format(page.name),
        ],
        numbers={"wrong": count, "suspected": len(suspects), "hits": hits},
    )


def _weight_story(quick, tick):
    """A linear model with fifty weights, five of which matter."""
    random = np.random.default_rng(0)
    true = np.zeros((50, 1))
    true[::10, 0] = [1.5, -1.0, 2.0, 1.0, -1.5]
    x = random.normal(size=(200, 50)).astype("float32")
    y = (x @ true + random.normal(size=(200, 1))).astype("float32")
    # Keras needs time for each epoch, so one epoch has many full batches.
    epochs, copies = (1, 5) if quick else (10, 100)
    weights = {"true": true[:, 0]}
    regularizers = {"plain": None, "sparse": MultiLasso(num_examples=len(x))}
    for name, regularizer in regularizers.items():
        keras.utils.set_random_seed(0)
        inputs = keras.Input((50,))
        dense = Dense(1, kernel_regularizer=regularizer)
        model = LikelihoodModel(inputs, dense(inputs))
        decay = keras.optimizers.schedules.CosineDecay(0.05, copies * epochs)
        optimizer = keras.optimizers.Adam(decay, beta_2=0.99)
        model.compile(optimizer, loss=NormalLoss())
        rows = (np.tile(values, (copies, 1)) for values in (x, y))
        model.fit(*rows, len(x), epochs, shuffle=False, verbose=0)
        weights[name] = dense.get_weights()[0][:, 0]
        tick()
    error = {k: _rmse(values, true[:, 0]) for k, values in weights.items()}
    most = 1.1 * np.abs(list(weights.values())).max()
    names = "index of the weight", "weight"
    chart = Chart((-1, 50), (-most, most), names, "True and learned weights")
    chart.grid()
    keys = {"data": "truth", "before": "no regularizer", "after": "MultiLasso"}
    for css, (name, values) in zip(keys, weights.items(), strict=True):
        chart.dots(css, list(enumerate(values)), 6.0 if name == "true" else 3.0)
    return Part(
        "Weights that do not matter are switched off",
        "Five of the fifty weights of a linear model matter. Learned from 200 "
        f"examples, their root mean squared error is {error['plain']:.3f} "
        f"without a regularizer and {error['sparse']:.3f} with MultiLasso.",
        [chart.figure(keys)],
        numbers=error,
    )
