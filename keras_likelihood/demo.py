"""What `keras-likelihood demo` shows: four stories."""

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
from keras_likelihood.recalibration.regression import Conformal, GlobalScaling
from keras_likelihood.regularizers import MultiLasso

TITLE = "Digits with wrong labels (keras_likelihood demo)"
"""The title of the page of digits, by which the command recognises it."""
_RobustHead = functools.partial(
    RobustRhoHead, conditioning={"shape": "global", "scale": "predicted"}
)
_LOSSES = {
    "squared error": (Dense, keras.losses.MeanSquaredError, "before"),
    "normal, predicted scale": (ScaleHead, NormalLoss, "after"),
    "robust rho, learned shape": (_RobustHead, RobustRhoLoss, "third"),
}
"""Last layer, loss, and the class of its lines in figures."""
_HALVES = 10
"""Number of random halves of patients for calibration."""
_SHOWN_DIGITS = 12


def run(page, *, console, quick: bool = False) -> list[Part]:
    """Trains, prints and writes the page of wrong labels.

    Returns the stories as parts of a page. `quick` trains for a few epochs.
    """
    console.say("Your loss should be a likelihood.", style="bold")
    epochs = 3 if quick else 120
    with console.progress("training models", 0) as on_model:
        done = itertools.count(1)

        def tick():
            on_model(next(done), 9)

        parts = [
            _curve_story(epochs, tick),
            _interval_story(epochs, tick),
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


def _regressors(x, y, epochs, tick):
    """Models of squared error and two likelihoods, of the same architecture.

    `tick` is called after each training.
    """
    models = {}
    for name, (head, loss, _) in _LOSSES.items():
        keras.utils.set_random_seed(0)
        inputs = keras.Input(x.shape[1:])
        hidden = Dense(32, activation="relu")(inputs)
        hidden = Dense(32, activation="relu")(hidden)
        model = models[name] = LikelihoodModel(inputs, head(1)(hidden))
        model.compile(keras.optimizers.Adam(0.005), loss=loss())
        stop = keras.callbacks.EarlyStopping(
            patience=25, restore_best_weights=True
        )
        # 20 divides the numbers of rows for training and validation. JAX would
        # compile a step again for a smaller batch.
        batch = 20 * max(1, len(x) // 200)
        options = {"validation_split": 0.2, "verbose": 0, "callbacks": [stop]}
        model.fit(x, y, batch, epochs, **options)
        tick()
    # Squared error predicts no scale. The best estimate of its scale is the
    # root mean squared residual.
    scaling = GlobalScaling(likelihood="normal")
    models["squared error"] = scaling.fit(models["squared error"], x, y).model
    return models


def _predict(model, x):
    return model.predict_distribution(x, batch_size=len(x), verbose=0)


def _kept(distribution, y):
    """Share of targets in the 90 % intervals, and their mean width."""
    low, high = distribution.interval(0.9)
    return np.mean((low <= y) & (y <= high)), np.mean(high - low)


def _rmse(found, truth):
    return float(np.sqrt(np.mean((found - truth) ** 2)))


def _table(scores):
    columns = ["loss", *next(iter(scores.values()))]
    rows = [
        [loss, *(f"{value:.3f}" for value in row.values())]
        for loss, row in scores.items()
    ]
    return Table(columns, rows)


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
    models = _regressors(x, y, epochs, tick)
    line = np.linspace(-2, 2, 100, dtype="float32")[:, None]
    scores, figures = {}, []
    for loss, model in models.items():
        found, css = _predict(model, x_test), _LOSSES[loss][-1]
        inside, width = _kept(found, y_test)
        scores[loss] = {
            "RMSE": _rmse(found.prediction, true_curve(x_test)),
            "NLL": float(np.mean(found.nll(y_test))),
            "in 90 % interval": inside,
            "mean width": width,
        }
        found = _predict(model, line)
        ends = np.clip([end[:, 0] for end in found.interval(0.9)], -3, 6)
        chart = Chart((-2, 2), (-3, 6), ("x", "y"), f"The curve under {loss}")
        chart.grid()
        chart.dots("data", np.c_[x, np.clip(y, -3, 6)], 2.0)
        chart.band(css, line[:, 0], *ends)
        chart.line("diagonal", np.c_[line, true_curve(line)])
        chart.line(css, np.c_[line, np.clip(found.prediction, -3, 6)])
        keys = {css: f"{loss}, with its 90 % interval", "data": "data"}
        figures.append(chart.figure(keys, "dashed: the truth"))
    errors = [f"{row['RMSE']:.2f} with {loss}" for loss, row in scores.items()]
    return Part(
        "Gross errors do not bend the curve",
        "One target in ten is far too large. The distance (RMSE) to the true "
        f"curve is {', '.join(errors)}.",
        [*figures, _table(scores)],
        numbers=scores,
    )


def _interval_story(epochs, tick):
    """442 patients, 10 measurements, disease progression after a year."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:220], order[220:]
    x = (x - x[train].mean(axis=0)) / (x[train].std(axis=0) + 1e-6)
    y = ((y - y[train].mean()) / y[train].std())[:, None]
    x, y = x.astype("float32"), y.astype("float32")
    models = _regressors(x[train], y[train], epochs, tick)
    x, y = x[test], y[test]
    scores, curves, names = {}, {}, {}
    for loss, model in models.items():
        found, css, kept = _predict(model, x), _LOSSES[loss][-1], []
        curves[css], names[css] = coverage_curve(found.cdf(y).clip(0, 1)), loss
        random = np.random.default_rng(0)
        for _ in range(_HALVES):
            held, new = np.array_split(random.permutation(len(y)), 2)
            fitted = Conformal().fit_distribution(found[held], y[held])
            kept.append(_kept(fitted.calibrate(found[new]), y[new]))
        columns = "as trained", "width", "with Conformal", "new width"
        values = *_kept(found, y), *np.mean(kept, axis=0)
        scores[loss] = dict(zip(columns, values, strict=True))
    before, after = (
        [row[name] for row in scores.values()]
        for name in ("as trained", "with Conformal")
    )
    return Part(
        "How well intervals keep their promise",
        "Diabetes progression of real patients. A 90 % interval should "
        "contain 90 % of new targets. The intervals of these small networks, "
        f"as trained, contain {min(before):.0%} to {max(before):.0%} of "
        f"{len(y)}. `kl.recalibration.regression.Conformal`, fitted to "
        f"{len(y) // 2} of these patients and judged on the others, makes it "
        f"{min(after):.0%} to {max(after):.0%} (mean of {_HALVES} random "
        "halves).",
        [
            reliability(curves, "promised", "observed, as trained", names),
            _table(scores),
        ],
        numbers=scores,
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
                "The worst suspects",
            ),
            Markup(
                '<p><a href="{}">The page of the labels</a>, on which a '
                "person marks them as right or wrong.</p>"
            ).format(page.name),
        ],
        numbers={"wrong": count, "suspected": len(suspects), "hits": hits},
    )


def _weight_story(quick, tick):
    """Fifty weights of a line, five of which matter."""
    random = np.random.default_rng(0)
    true = np.zeros((50, 1))
    true[::10, 0] = [1.5, -1.0, 2.0, 1.0, -1.5]
    x = random.normal(size=(200, 50)).astype("float32")
    y = (x @ true + random.normal(size=(200, 1))).astype("float32")
    # One epoch has many full batches, because each epoch costs Keras time.
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
    names = "number of the weight", "weight"
    chart = Chart((-1, 50), (-most, most), names, "True and learned weights")
    chart.grid()
    keys = {"data": "truth", "before": "no regularizer", "after": "MultiLasso"}
    for css, (name, values) in zip(keys, weights.items(), strict=True):
        radius = 6.0 if name == "true" else 3.0
        chart.dots(css, list(enumerate(values)), radius)
    return Part(
        "Weights that do not matter are switched off",
        "Fifty weights, of which five matter, learned from 200 examples. Root "
        f"mean square error {error['plain']:.3f} without a regularizer, "
        f"{error['sparse']:.3f} with MultiLasso, whose strengths are learned.",
        [chart.figure(keys)],
        numbers=error,
    )
