"""The four stories of the demo: training, words and figures."""

import itertools

import numpy as np
from keras.ops import convert_to_numpy
from markupsafe import Markup

from keras_likelihood.auditing import audit, train_for_audit
from keras_likelihood.demo import models as data
from keras_likelihood.demo.models import regressors, sparse_weights
from keras_likelihood.pages.charts import Chart, share_chart
from keras_likelihood.pages.examples import show_inputs
from keras_likelihood.pages.page import Part, Table
from keras_likelihood.recalibration.regression import Conformal

TITLE = "Digits with wrong labels (keras_likelihood demo)"
"""The title of the page of digits, by which the command recognises it."""
_COLORS = ("before", "after", "third")
_HALVES = 10
"""Number of random halves of patients for calibration."""
_SHOWN = 12
"""Number of digits on the page."""


def run(page, *, console, quick: bool = False) -> list[Part]:
    """Trains, prints and writes the page of wrong labels.

    Returns the stories as parts of a page. `quick` trains for a few epochs.
    """
    console.say("Your loss should be a likelihood.", style="bold")
    epochs = 3 if quick else 120
    splits = [data.noisy_curve(), data.diabetes()]
    with console.progress("training models", 0) as on_model:
        done = itertools.count(1)

        def tick():
            on_model(next(done), 9)

        fits = [regressors(split, epochs, tick) for split in splits]
        digits = _wrong_labels(page, quick)
        tick()
        weights = sparse_weights(quick, tick)
    parts = [
        _curve(splits[0], fits[0]),
        _intervals(splits[1], fits[1]),
        digits,
        _weights(weights),
    ]
    for part in parts:
        console.say(f"{part.title}.", style="bold")
        console.say(part.summary)
        for table in (b for b in part.body if isinstance(b, Table)):
            if not isinstance(table.rows[0][0], Markup):
                console.table(table.columns, table.rows)
        console.result(**{part.title: part.numbers})
    return parts


def _interval(distribution):
    return map(convert_to_numpy, distribution.interval(0.9))


def _kept(distribution, y):
    """Share of targets in the 90 % intervals, and their mean width."""
    low, high = _interval(distribution)
    inside = float(np.mean((low <= y) & (y <= high)))
    return inside, float(np.mean(high - low))


def _scores(distribution, y, truth):
    inside, width = _kept(distribution, y)
    error = convert_to_numpy(distribution.prediction) - truth
    return {
        "RMSE": float(np.sqrt(np.mean(error**2))),
        "NLL": float(np.mean(convert_to_numpy(distribution.nll(y)))),
        "in 90 % interval": inside,
        "mean width": width,
    }


def _table(scores, title=""):
    columns = ["loss", *next(iter(scores.values()))]
    rows = [
        [loss, *(f"{value:.3f}" for value in row.values())]
        for loss, row in scores.items()
    ]
    return Table(columns, rows, title)


def _curve(split, fits):
    x = np.linspace(-2, 2, 100, dtype="float32")[:, None]
    scores, figures = {}, []
    for css, (loss, predict) in zip(_COLORS, fits.items(), strict=True):
        truth = data.curve(split.x_test)
        scores[loss] = _scores(predict(split.x_test), split.y_test, truth)
        distribution = predict(x)
        mean = convert_to_numpy(distribution.prediction)
        chart = Chart((-2, 2), (-3, 6), ("x", "y"), f"The curve under {loss}")
        chart.grid()
        chart.dots("data", np.c_[split.x, np.clip(split.y, -3, 6)], 2.0)
        ends = np.clip([end[:, 0] for end in _interval(distribution)], -3, 6)
        chart.band(css, x[:, 0], *ends)
        chart.line("diagonal", np.c_[x, data.curve(x)])
        chart.line(css, np.c_[x, np.clip(mean, -3, 6)])
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


def _intervals(split, fits):
    levels = np.linspace(0.05, 0.95, 19)
    title = "Share of new targets inside of 90 % intervals"
    chart = share_chart(("promised", "observed"), title)
    scores, mended = {}, {}
    for css, (loss, predict) in zip(_COLORS, fits.items(), strict=True):
        distribution = predict(split.x_test)
        scores[loss] = _scores(distribution, split.y_test, split.y_test)
        cdf = convert_to_numpy(distribution.cdf(split.y_test)).ravel()
        inside = [np.mean(np.abs(2 * cdf - 1) <= level) for level in levels]
        chart.line(css, np.c_[levels, inside])
        kept = {"as trained": scores[loss]["in 90 % interval"]}
        mended[loss] = kept | _conformal(predict, split)
    before, after = (
        [row[name] for row in mended.values()]
        for name in ("as trained", "with Conformal")
    )
    keys = dict(zip(_COLORS, fits, strict=True))
    half = len(split.y_test) // 2
    return Part(
        "How well intervals keep their promise",
        "Diabetes progression of real patients. A 90 % interval should "
        "contain 90 % of new targets. The intervals of these small networks, "
        f"as trained, contain {min(before):.0%} to {max(before):.0%} of "
        f"{len(split.y_test)}. `kl.recalibration.regression.Conformal`, fitted "
        f"to {half} of these patients and judged on the others, makes it "
        f"{min(after):.0%} to {max(after):.0%} (mean of {_HALVES} random "
        "halves).",
        [
            chart.figure(keys, "as trained; dashed: the promise"),
            _table(mended, title),
            _table(scores, "As trained"),
        ],
        numbers={"before": scores, "mended": mended},
    )


def _conformal(predict, split):
    """Mean coverage and width of conformal intervals on random halves."""
    random, x, y = np.random.default_rng(0), split.x_test, split.y_test
    found = []
    for _ in range(_HALVES):
        held, new = np.array_split(random.permutation(len(y)), 2)
        fitted = Conformal().fit_distribution(predict(x[held]), y[held])
        found.append(_kept(fitted.calibrate(predict(x[new])), y[new]))
    share, width = np.mean(found, axis=0).tolist()
    return {"with Conformal": share, "mean width": width}


def _wrong_labels(page, quick):
    x, y, true = data.wrong_digits()
    if quick:
        x, y, true = x[:300], y[:300], true[:300]
    network = train_for_audit(x, y, epochs=2 if quick else None)
    options = {"data_parameter": network.data_parameter, "title": TITLE}
    report = audit(network.model, x, y, page, **options)
    wrong, suspects = y != true, report.suspects()
    count = int(wrong.sum())
    numbers = {
        "examples": len(y),
        "wrong": count,
        "suspected": report.num_issues,
        "hits": int(wrong[suspects].sum()),
        "ranked": int(wrong[report.ranked()[:count]].sum()),
    }
    seen, predicted = show_inputs(x), report.label_issues["predicted_label"]
    shown = suspects[:_SHOWN] if len(suspects) else report.ranked()[:_SHOWN]
    return Part(
        "Wrong labels are found",
        f"{count} of {len(y):,} labels are wrong. The audit suspects "
        f"{numbers['suspected']}, of which {numbers['hits']} are wrong. Of "
        f"the {count} labels it ranks worst, {numbers['ranked']} are wrong.",
        [
            Table(
                ["digit", "given label", "predicted", "truth"],
                [
                    [seen.cell(i), str(y[i]), str(predicted[i]), str(true[i])]
                    for i in shown.tolist()
                ],
                "The worst suspects",
            ),
            Markup(
                '<p><a href="{}">The page of the labels</a>, on which a '
                "person marks them as right or wrong.</p>"
            ).format(page.name),
        ],
        numbers=numbers,
    )


def _weights(weights):
    error = {
        name: float(np.sqrt(np.mean((values - weights["true"]) ** 2)))
        for name, values in weights.items()
    }
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
