"""Writes the page about a fitted estimator."""

import warnings
from typing import Any

import numpy as np
from sklearn import dummy, ensemble, impute, linear_model, model_selection
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from keras_likelihood.backend.files import Path
from keras_likelihood.backend.types import Array
from keras_likelihood.metrics import functions
from keras_likelihood.pages.charts import Chart, reliability
from keras_likelihood.pages.page import Part, Table, write_page
from keras_likelihood.tables.columns import digits
from keras_likelihood.tabular import targets
from keras_likelihood.tabular.batches import predict_rows


def write_report(estimator: Any, path: Path) -> str:
    """Writes the page of a fitted estimator, and returns its path."""
    facts = {
        "Rows": f"{estimator.scores_['rows']:,}",
        "Likelihood": targets.describe_likelihood(estimator),
    }
    sections = (_compare, _calibration, _columns, _doubtful)
    parts = [section(estimator) for section in sections]
    title = f"{type(estimator).__name__} of a table"
    write_page(path, "report.html", title, facts=facts, parts=parts)
    return str(path)


def _compare(estimator: Any) -> Part:
    """Held-out scores, compared with cross-validated simple methods."""
    held, own = estimator.held_out_, estimator.scores_
    x, y = _sample(held, 5000)
    if is_classifier := "probabilities" in held:
        names, method = ["NLL", "accuracy"], "predict_proba"
        models = (
            dummy.DummyClassifier(strategy="prior"),
            linear_model.LogisticRegression(max_iter=1000),
            ensemble.HistGradientBoostingClassifier(),
        )
        fewest = np.bincount(y).min()
    else:
        names, method, fewest = ["NLL", "RMSE"], "predict", len(y)
        models = (
            dummy.DummyRegressor(),
            linear_model.RidgeCV(),
            ensemble.HistGradientBoostingRegressor(),
        )
    rows = [["this model", *(digits(own[name]) for name in names)]]
    constant, linear, boosted = models
    fill = impute.SimpleImputer(strategy="median")
    baselines = {
        "constant": constant,
        "linear": make_pipeline(fill, StandardScaler(), linear),
        "boosted trees": boosted,
    }
    for name, model in baselines.items() if fewest >= 2 else ():
        with warnings.catch_warnings():
            # Some folds have constant columns.
            warnings.simplefilter("ignore")
            found = model_selection.cross_val_predict(
                model, x, y, cv=min(5, fewest), method=method
            )
        if is_classifier:
            right = np.mean(found.argmax(axis=1) == y)
            scores = [functions.negative_log_likelihood(y, found), right]
        else:
            # Normal errors with one scale.
            error = max(np.mean((found - y) ** 2) ** 0.5, 1e-30)
            nll = np.log(error) + 0.5 * np.log(2 * np.pi * np.e)
            scores = [nll, error]
        rows.append([name, *map(digits, scores)])
    return Part(
        "How good it is",
        "These scores are from held-out rows. A lower NLL is better.",
        [Table(["method", *names], rows)],
    )


def _sample(held: dict[str, Array], count: int) -> tuple[Array, Array]:
    """A random sample of held-out rows, as a table is often sorted."""
    order = np.random.default_rng(0).permutation(len(held["y"]))[:count]
    return held["x"][order], held["y"][order]


def _percent(share: float) -> str:
    """A share as text: 0.1 % and 99.9 % are the ends."""
    if 0.001 <= share <= 0.999:
        return f"{share:.1%}"
    return "< 0.1%" if share < 0.5 else "> 99.9%"


def _calibration(estimator: Any) -> Part:
    held = estimator.held_out_
    if "probabilities" in held:
        top = held["probabilities"].max(axis=1)
        right = held["probabilities"].argmax(axis=1) == held["y"]
        bins = np.array_split(np.argsort(top), min(10, len(top)))
        curve = [(top[b].mean(), right[b].mean(), len(b)) for b in bins]
        axes = "predicted probability", "share of right answers"
    else:
        inside, levels = np.abs(2 * held["cdf"] - 1), np.linspace(0.1, 0.9, 9)
        curve = [(p, np.mean(inside <= p), len(inside)) for p in levels]
        axes = "promised coverage", "observed coverage"
    points = [
        {"name": f"{p:.0%}", "expected": p, "observed": q, "count": n}
        for p, q, n in curve
    ]
    gaps = np.array([q - p for p, q, _ in curve])
    gap = np.abs(gaps).mean()
    words = f"On held-out rows, {axes[0]} and {axes[1]} differ by {gap:.1%} on "
    words, body = f"{words}average.", [reliability({"after": points}, *axes)]
    # Fewer rows have larger gaps by chance.
    if gap <= max(0.05, len(held["y"]) ** -0.5):
        return Part("Calibration", words, body, "good")
    if "probabilities" in held:
        advice = "calibrate the probabilities on other rows, here val.csv"
        line = "keras-likelihood recalibrate MODEL.keras --data val.csv"
        return Part("Calibration", words, body, "bad", advice, line)
    size = "wide" if gaps.mean() > 0 else "narrow"
    words += f" The distributions are too {size}."
    note = (
        "The intervals and quantiles of `predict_distribution` are corrected "
        "for this on held-out rows. NLL and mean are before this correction."
    )
    advice = "try another likelihood, and look for wrong targets"
    line = "keras-likelihood fit TABLE --likelihood NAME"
    return Part("Calibration", words, [note, *body], "bad", advice, line)


def _columns(estimator: Any) -> Part:
    """Kinds of the columns, and the effects of the strongest."""
    (x, _), columns = _sample(estimator.held_out_, 500), estimator.columns_
    order = np.random.default_rng(1).permutation(len(x))
    before, effects = _predict(estimator, x), np.zeros(len(columns))
    for at, column in enumerate(columns):
        if column.kind != "ignored":
            shuffled = x.copy()
            shuffled[:, at] = x[order, at]
            effects[at] = np.abs(_predict(estimator, shuffled) - before).mean()
    effects /= max(effects.max(), 1e-30)
    strongest = np.argsort(-effects, kind="stable")
    missing = np.isnan(x).mean(axis=0)
    rows = [
        [c.name, c.kind, f"{missing[at]:.0%}", f"{effects[at]:.2f}"]
        for at, c in ((at, columns[at]) for at in strongest[:20])
    ]
    charts = [
        _effect(estimator, x[:100], at)
        for at in strongest[:4]
        if columns[at].kind == "number" and effects[at] > 0
    ]
    return Part(
        "Columns",
        "The effect of a column is how much predictions change if its values "
        "are shuffled, relative to the strongest.",
        [Table(["column", "kind", "missing", "effect"], rows), *charts],
    )


def _predict(estimator: Any, x: Array) -> Array:
    """Mean `(n, 1)` or probabilities of encoded rows."""
    output = predict_rows(estimator.model_, x)
    return output[0] if isinstance(output, list | tuple) else output


def _effect(estimator: Any, x: Array, at: int) -> Any:
    """Partial dependence: the mean prediction if all rows had one value."""
    values = np.unique(np.nanquantile(x[:, at], np.linspace(0.02, 0.98, 25)))
    tables = np.repeat(x[None], len(values), axis=0)
    tables[:, :, at] = values[:, None]
    found = _predict(estimator, tables.reshape(-1, x.shape[1]))
    found = found.reshape(len(values), len(x), -1)
    # For a classifier, the class with the highest mean probability.
    found = found[..., found.mean(axis=(0, 1)).argmax()]
    low, high = np.quantile(found, [0.1, 0.9], axis=1)
    name = estimator.columns_[at].name
    values = values.astype("float64") + estimator.columns_[at].offset
    x_range = float(values[0]), float(values[-1]) + 1e-9
    y_range = float(low.min()), float(high.max()) + 1e-9
    chart = Chart(x_range, y_range, (name, "prediction"), f"Effect of {name}")
    chart.band("data", values, low, high)
    chart.line("after", np.c_[values, found.mean(axis=1)])
    legend = {"after": "mean prediction", "data": "80 % of the rows"}
    return chart.figure(legend)


def _doubtful(estimator: Any) -> Part:
    held, words = estimator.held_out_, "The targets of these rows fit worst."
    words += " Rows are counted from 0."
    cells: tuple[Any, ...]
    if "probabilities" in held:
        heading = ["row", "label", "prediction", "probability"]
        chosen = held["issues"][:20]
        p, names = held["probabilities"][chosen], estimator.classes_.astype(str)
        texts = names[held["y"][chosen]], names[p.argmax(axis=1)]
        cells = *texts, [f"{share:.0%}" for share in p.max(axis=1)]
    else:
        heading = ["row", "target", "prediction", "smaller targets"]
        chosen = np.argsort(-held["nll"], kind="stable")[:20]
        y, fit, cdf = (held[k][chosen] for k in ("y", "prediction", "cdf"))
        cells = [f"{v:.6g}" for v in y], map(digits, fit), map(_percent, cdf)
        words += " The last column is the probability of a smaller target."
    if not len(chosen):
        return Part("Rows to look at", "None.")
    columns = map(str, held["row"][chosen]), *cells
    rows = [list(map(str, row)) for row in zip(*columns, strict=True)]
    return Part("Rows to look at", words, [Table(heading, rows)])
