"""The page about a fitted estimator: how good it is, and why."""

import warnings

import numpy as np
from sklearn import (
    dummy,
    ensemble,
    impute,
    linear_model,
    model_selection,
    pipeline,
    preprocessing,
)

from keras_likelihood.metrics.functions import negative_log_likelihood
from keras_likelihood.pages.charts import Chart, number, reliability, ticks
from keras_likelihood.pages.page import Part, Table, write_page
from keras_likelihood.tabular import targets, training

_ROWS = 5000
"""Baselines are compared on a sample of a larger table."""
_EFFECTS = 4
_LEVELS = np.linspace(0.1, 0.9, 9)


def write_report(estimator, path) -> str:
    """Writes the page of a fitted estimator, and returns its path."""
    write_page(
        path,
        "report.html",
        f"{type(estimator).__name__} of a table",
        facts={
            "Rows": f"{estimator.scores_['rows']:,}",
            "Likelihood": targets.describe_likelihood(estimator),
        },
        parts=[
            _compare(estimator),
            _calibration(estimator),
            _columns(estimator),
            _doubtful(estimator),
        ],
    )
    return str(path)


def _baselines(is_classifier):
    def after_filling(model):
        return pipeline.make_pipeline(
            impute.SimpleImputer(strategy="median"),
            preprocessing.StandardScaler(),
            model,
        )

    if is_classifier:
        return {
            "constant": dummy.DummyClassifier(strategy="prior"),
            "linear": after_filling(
                linear_model.LogisticRegression(max_iter=1000)
            ),
            "boosted trees": ensemble.HistGradientBoostingClassifier(),
        }
    return {
        "constant": dummy.DummyRegressor(),
        "linear": after_filling(linear_model.RidgeCV()),
        "boosted trees": ensemble.HistGradientBoostingRegressor(),
    }


def _compare(estimator):
    """Held-out scores beside those of simple methods by cross-validation."""
    held = estimator.held_out_
    x, y = held["x"][:_ROWS], held["y"][:_ROWS]
    is_classifier = "probabilities" in held
    names = [name for name in estimator.scores_ if name != "rows"][:2]
    own = [f"{estimator.scores_[name]:.4g}" for name in names]
    rows = [["this model", *own]]
    folds = min(
        5, *(np.unique(y, return_counts=True)[1] if is_classifier else [len(y)])
    )
    for name, model in _baselines(is_classifier).items():
        if folds < 2:
            break
        with warnings.catch_warnings():
            # Some folds have constant columns.
            warnings.simplefilter("ignore")
            found = model_selection.cross_val_predict(
                model,
                x,
                y,
                cv=folds,
                method="predict_proba" if is_classifier else "predict",
            )
        if is_classifier:
            scores = (
                negative_log_likelihood(y, found),
                np.mean(found.argmax(1) == y),
            )
        else:
            # The likelihood of normal errors of one size.
            error = np.mean((found - y) ** 2)
            scores = 0.5 * np.log(2 * np.pi * np.e * error), error**0.5
        rows.append([name, *(f"{score:.4g}" for score in scores)])
    return Part(
        "How good it is",
        "Scores on rows that were not trained on. A lower NLL is better.",
        [Table(["method", *names], rows)],
    )


def _calibration(estimator):
    held = estimator.held_out_
    if "probabilities" in held:
        top = held["probabilities"].max(axis=1)
        right = held["probabilities"].argmax(axis=1) == held["y"]
        bins = np.array_split(np.argsort(top), min(10, len(top)))
        curve = [
            (f"{top[b].mean():.0%}", top[b].mean(), right[b].mean(), len(b))
            for b in bins
        ]
        axes = "predicted probability", "share of right answers"
    else:
        inside = np.abs(2 * held["cdf"] - 1)
        count = len(inside)
        curve = [
            (f"{level:.0%} interval", level, np.mean(inside <= level), count)
            for level in _LEVELS
        ]
        axes = "promised coverage", "observed coverage"
    keys = ("name", "expected", "observed", "count")
    points = [dict(zip(keys, point, strict=True)) for point in curve]
    gap = np.mean([abs(p["expected"] - p["observed"]) for p in points])
    return Part(
        "Calibration",
        f"What was promised and what was observed differ by {gap:.1%} on "
        "average, on rows that were not trained on and before the "
        "calibration.",
        [reliability({"after": points}, *axes)],
    )


def _columns(estimator):
    """What the columns hold, and the effect of the strongest."""
    x = estimator.held_out_["x"][:500]
    order = np.random.default_rng(0).permutation(len(x))
    before, effects = _predict(estimator, x), []
    for at in range(x.shape[1]):
        shuffled = x.copy()
        shuffled[:, at] = x[order, at]
        change = np.abs(_predict(estimator, shuffled) - before).mean()
        effects.append(
            0.0 if estimator.columns_[at].kind == "ignored" else change
        )
    strongest = np.argsort(-np.array(effects), kind="stable")
    most = max(effects[strongest[0]], 1e-30)
    rows = [
        [
            estimator.columns_[at].name,
            estimator.columns_[at].kind,
            f"{np.isnan(x[:, at]).mean():.0%}",
            f"{effects[at] / most:.2f}",
        ]
        for at in strongest[:20]
    ]
    charts = [
        _effect(estimator, x[:100], at)
        for at in strongest[:_EFFECTS]
        if estimator.columns_[at].kind == "number"
        and np.ptp(x[:, at][~np.isnan(x[:, at])]) > 0
    ]
    return Part(
        "Columns",
        "The effect of a column is how much predictions change if its values "
        "are shuffled, relative to the strongest.",
        [Table(["column", "kind", "missing", "effect"], rows), *charts],
    )


def _predict(estimator, x):
    """Mean `(n, 1)` or probabilities of encoded rows."""
    output = training.predict_rows(estimator.model_, x)
    return output[0] if isinstance(output, list | tuple) else output


def _effect(estimator, x, at):
    """Partial dependence: the mean prediction if all rows had one value."""
    values = np.unique(np.nanquantile(x[:, at], np.linspace(0.02, 0.98, 25)))
    tables = np.repeat(x[None], len(values), axis=0)
    tables[:, :, at] = values[:, None]
    found = _predict(estimator, tables.reshape(-1, x.shape[1]))
    found = found.reshape(len(values), len(x), -1)
    # Of a classifier, the most frequent class.
    found = found[..., found.mean(axis=(0, 1)).argmax()]
    low, middle, high = (
        np.quantile(found, 0.1, axis=1),
        found.mean(axis=1),
        np.quantile(found, 0.9, axis=1),
    )
    x_range = float(values[0]), float(values[-1])
    bottom, top = float(low.min()), float(high.max())
    y_range = bottom, top if top > bottom else bottom + 1
    name = estimator.columns_[at].name
    chart = Chart(x_range, y_range, (name, "prediction"), f"Effect of {name}")
    chart.grid(
        {t: number(t) for t in ticks(*x_range, 5)},
        {t: number(t) for t in ticks(*y_range, 4)},
    )
    chart.band("band", values, low, high)
    chart.line("after", list(zip(values, middle, strict=True)))
    return chart.figure(
        {"after": f"mean prediction by {name}"},
        "The band holds 80 % of the rows.",
    )


def _doubtful(estimator):
    held = estimator.held_out_
    if "probabilities" in held:
        chosen, p = held["issues"][:20], held["probabilities"]
        names = [str(name) for name in estimator.classes_]
        cells = [
            [names[held["y"][i]], names[p[i].argmax()], f"{p[i].max():.0%}"]
            for i in chosen
        ]
        columns = ["row", "label", "prediction", "probability"]
    else:
        chosen = np.argsort(-held["nll"], kind="stable")[:20]
        cells = [
            [
                f"{held['y'][i]:.6g}",
                f"{held['prediction'][i]:.6g}",
                f"{held['cdf'][i]:.4f}",
            ]
            for i in chosen
        ]
        columns = ["row", "target", "prediction", "cdf of the target"]
    rows = [
        [str(held["row"][i]), *cell]
        for i, cell in zip(chosen, cells, strict=True)
    ]
    found = f"{len(rows)} rows whose target fits worst." if rows else "None."
    return Part(
        "Rows to look at", found, [Table(columns, rows)] if rows else []
    )
