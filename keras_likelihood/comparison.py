"""Compares models by the likelihood of held-out data."""

import contextlib
import inspect
import os
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.conformal import ConformalRegressor
from keras_likelihood.likelihoods import Multivariate, Quantiles
from keras_likelihood.likelihoods.checks import check_argument, to_float64
from keras_likelihood.metrics import functions
from keras_likelihood.reading import load_model, read_output
from keras_likelihood.reading.targets import as_targets

__all__ = ["Comparison", "ComparisonRow", "compare"]

_REGRESSION = ("nll", "crps", "coverage", "width", "rmse")
_DRAWS = 64
_SIGNS = {"nll": 1, "crps": 1, "rmse": 1, "brier": 1, "ece": 1, "accuracy": -1}
"""1 for scores where lower is better, -1 where higher is better."""


class ComparisonRow(NamedTuple):
    """The scores of one model.

    Attributes:
        name: the name of the model.
        scores: dict of score names to means, NaN for scores it does not have.
        errors: dict of score names to standard errors.
        behind: NLL minus the NLL of the best model.
        behind_error: standard error of this difference, from paired scores.
    """

    name: str
    scores: dict[str, Any]
    errors: dict[str, Any]
    behind: float
    behind_error: float


class Comparison(list[ComparisonRow]):
    """A list of `ComparisonRow`s, lowest NLL first, that prints as a table.

    Standard errors are in parentheses. A star marks the best value of a column.
    """

    def row(self, name: str) -> ComparisonRow:
        """The row of the model with this name."""
        names = [row.name for row in self]
        check_argument("name", name, name in names, f"one of {names}")
        return self[names.index(name)]

    def __str__(self) -> str:
        columns = [["model", *(row.name for row in self)]]
        for name in self[0].scores:
            values = np.array([row.scores[name] for row in self])
            best = -1
            if name in _SIGNS and not np.isnan(values).all():
                best = int(np.nanargmin(_SIGNS[name] * values))
            errors = [row.errors[name] for row in self]
            rows = enumerate(zip(values, errors, strict=True))
            columns.append([name, *(_cell(*v, at == best) for at, v in rows)])
        behind = [_cell(r.behind, r.behind_error, False) for r in self]
        columns.append(["nll - best", *behind])
        for at, cells in enumerate(columns):
            padding = f"{'>' if at else '<'}{max(map(len, cells))}"
            columns[at] = [f"{cell:{padding}}" for cell in cells]
        lines = zip(*columns, strict=True)
        return "\n".join("  ".join(cells).rstrip() for cells in lines)

    __repr__ = __str__


def _cell(value: float, error: float, is_best: bool) -> str:
    if value != value:
        return "-"
    return f"{value:.4g} ({error:.2g}){'*' if is_best else ' '}"


def compare(
    models: dict[str, Any],
    x: Array,
    y: Array,
    *,
    folds: int = 5,
    fit: dict[str, Any] | None = None,
    coverage: float = 0.9,
    batch_size: int = 256,
    seed: int = 0,
) -> Comparison:
    """Compares models by the likelihood of held-out data.

    Log-likelihoods include all constants, so different likelihoods can be
    compared. For regression, the table also has the CRPS, the coverage and mean
    width of the interval, and the RMSE. For classification, it has the Brier
    score, the ECE and the accuracy.

    ```python
    fitted = {"normal": model_a, "student_t": model_b}
    print(kl.compare(fitted, x_test, y_test))


    def build():
        model = kl.LikelihoodModel(...)
        model.compile("adam", loss=kl.losses.NormalLoss())
        return model


    print(kl.compare({"normal": build}, x, y, fit={"epochs": 50}))
    ```

    Args:
        models: dict of names to fitted models or the paths of their files, for
            held-out `x` and `y`. Or a dict of names to functions, which are
            cross-validated: without arguments they return a compiled model, and
            of the training data `(x, y)` of a fold a fitted one.
        x: inputs `(n, ...)`, as for `predict`.
        y: targets `(n, ...)` or labels.
        folds: number of folds of the cross-validation, `>= 2`. Defaults to 5.
        fit: options of `model.fit` in the cross-validation.
        coverage: nominal coverage of the interval. Defaults to 0.9.
        batch_size: the batch size for prediction. Defaults to 256.
        seed: the random seed of the folds. Defaults to 0.

    Returns:
        A `Comparison`, which prints as a table. Standard errors are over the
        folds or, for fitted models, over the examples. Missing scores are NaN:
        a stock regressor only has an RMSE, the NLL of quantiles is not
        comparable, and targets known only by bounds have an NLL and a width.
        Models without an NLL come last, sorted by CRPS.
    """
    fits = isinstance(models, dict) and models
    check_argument("models", models, fits, "a dict of models or functions")
    kinds = keras.Model | str | os.PathLike
    is_fitted = [isinstance(model, kinds) for model in models.values()]
    are_functions = not any(is_fitted) and all(map(callable, models.values()))
    if not (all(is_fitted) or are_functions):
        raise ValueError(
            "`models` must be all fitted models or all functions that return "
            "them. Scores on held-out data and scores of a cross-validation "
            "cannot be compared. "
            f"Received: {[type(m).__name__ for m in models.values()]}"
        )
    y = np.asarray(y)
    every: Array = np.arange(len(y))
    options: Any = coverage, batch_size
    results: dict[str, Any] = {}
    if all(is_fitted):
        for name, model in models.items():
            each = scores_by_example(load_model(model), x, y, *options)
            results[name] = average(each), error_of_average(each), each["nll"]
        return _table(results)
    allowed = f"from 2 to the number of examples, {len(y)}"
    check_argument("folds", folds, 2 <= folds <= len(y), allowed)
    order = np.random.default_rng(seed).permutation(every)
    by_fold: dict[str, Any] = {name: [] for name in models}
    for fold in (np.sort(order[i::folds]) for i in range(folds)):
        train, test = _take((x, y), np.delete(every, fold)), _take((x, y), fold)
        for name, build in models.items():
            if len(inspect.signature(build).parameters) == 2:
                model = build(*train)
            else:
                model = build()
                model.fit(*train, **{"verbose": 0, **(fit or {})})
            each = scores_by_example(model, *test, *options)
            by_fold[name].append(average(each))
    for name, scores in by_fold.items():
        columns = {k: np.array([s[k] for s in scores]) for k in scores[0]}
        means = {k: float(np.mean(v)) for k, v in columns.items()}
        errors = {k: _standard_error(v) for k, v in columns.items()}
        results[name] = means, errors, columns["nll"]
    return _table(results)


def _take(arrays: Any, rows: Array) -> Any:
    return keras.tree.map_structure(lambda a: np.asarray(a)[rows], arrays)


def _table(results: dict[str, Any]) -> Comparison:
    """Makes a `Comparison` of means, errors and NLLs `(n,)` by name."""
    scores = {name: list(means) for name, (means, _, _) in results.items()}
    if len(set(map(tuple, scores.values()))) > 1:
        raise ValueError(
            "All models must predict numbers, or all must predict classes. "
            f"Received: {scores}"
        )

    def order(row: Any) -> Any:
        # Models without a likelihood have an NLL of NaN and come last.
        values = row[1][0]["nll"], row[1][0].get("crps", 0)
        return np.nan_to_num(values, nan=1e99).tolist()

    rows = sorted(results.items(), key=order)
    _, (best, _, best_nll) = rows[0]
    return Comparison(
        ComparisonRow(
            name,
            means,
            errors,
            means["nll"] - best["nll"],
            _standard_error(nll - best_nll),
        )
        for name, (means, errors, nll) in rows
    )


def _standard_error(values: Array) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def scores_by_example(
    model: Any, x: Array, y: Array, coverage: float, batch_size: int
) -> dict[str, Any]:
    """Scores of every example; `ece` is `(right, confidence)`."""
    reading = read_output(model, x, batch_size=batch_size)
    y = np.asarray(y)
    is_point = reading.likelihood is None
    if is_point:
        reading = reading.with_likelihood(y)
    distribution = reading.distribution()
    if hasattr(distribution, "class_probabilities"):
        return _of_classes(distribution, y)
    scores = {name: np.full(len(y), np.nan) for name in _REGRESSION}
    exact = _exact_targets(distribution, y)
    is_quantiles = isinstance(distribution, Quantiles)
    if exact is not None:
        centre = distribution.prediction
        centre = distribution.mean() if is_quantiles else centre
        scores["rmse"] = _rows((exact - to_float64(centre)) ** 2)
    conformal = isinstance(model, ConformalRegressor)
    if is_point and not conformal:
        return scores
    if not is_quantiles and not is_point:
        # The composite likelihood of quantiles is not comparable to others.
        target = np.asarray(y, distribution.prediction.dtype)
        scores["nll"] = _rows(to_float64(distribution.nll(target)))
    interval = (
        model.interval(x, coverage, batch_size=batch_size)
        if conformal
        else _interval(distribution, coverage)
    )
    lower, upper = map(to_float64, interval)
    scores["width"] = _rows(upper - lower)
    if exact is not None:
        scores["coverage"] = _rows((exact >= lower) & (exact <= upper))
    if exact is not None and not is_point:
        scores["crps"] = _rows(crps(distribution, exact))
    return scores


def _exact_targets(distribution: Any, y: Array) -> Array | None:
    """Targets as float64, `None` if some are known only by their bounds."""
    shape = tuple(distribution.outcomes_like().shape)
    if distribution.takes_bounds and y.shape[-1:] == (2,) and y.shape != shape:
        if (y[..., 0] != y[..., 1]).any():
            return None
        y = y[..., 0]
    return as_targets(y, shape)


def _interval(distribution: Any, coverage: float) -> tuple[Array, Array]:
    """Central intervals, of each coordinate if outcomes are vectors."""
    if not isinstance(distribution, Multivariate):
        return distribution.interval(coverage)
    units = range(distribution.prediction.shape[-1])
    each = [distribution.marginal(i).interval(coverage) for i in units]
    ends = zip(*each, strict=True)
    lower, upper = (np.concatenate([*map(to_float64, e)], -1) for e in ends)
    return lower, upper


def _of_classes(distribution: Any, y: Array) -> dict[str, Array]:
    p = to_float64(distribution.class_probabilities())
    p = p.reshape(-1, p.shape[-1])
    nll = to_float64(distribution.nll(y))
    labels = y.argmax(axis=-1) if y.size == p.size and y.ndim > 1 else y
    labels = labels.reshape(-1).astype(int)
    right, confidence = p.argmax(axis=-1) == labels, p.max(axis=-1)
    return {
        "nll": nll.reshape(-1),
        "brier": np.sum((p - np.eye(p.shape[-1])[labels]) ** 2, axis=-1),
        "ece": np.stack([right, confidence], axis=-1),
        "accuracy": right.astype("float64"),
    }


def crps(distribution: Any, y: Array) -> Array:
    """`E|X - y| - E|X - X'| / 2`, from draws if there is no other way."""
    with contextlib.suppress(NotImplementedError):
        return to_float64(distribution.crps(np.float32(y)))
    draws = np.sort(to_float64(distribution.sample(_DRAWS, seed=0)), axis=0)
    rank = np.arange(1, _DRAWS + 1).reshape(-1, *(1,) * y.ndim)
    # The sum is over all pairs of two different draws.
    pairs = np.sum((2 * rank - _DRAWS - 1) * draws, axis=0)
    return np.abs(draws - y).mean(axis=0) - pairs / (_DRAWS * (_DRAWS - 1))


def average(values: dict[str, Any]) -> dict[str, Any]:
    """Means over examples, by score."""
    means = {name: float(np.mean(v)) for name, v in values.items()}
    if "rmse" in means:
        means["rmse"] = float(np.sqrt(means["rmse"]))
    if "ece" in means:
        means["ece"] = functions.binned_error(*values["ece"].T)
    return means


def error_of_average(values: dict[str, Any]) -> dict[str, Any]:
    """Standard errors of `average`, from the variance over the examples."""
    errors = {}
    for name, each in values.items():
        errors[name] = float(np.std(each) / np.sqrt(len(each)))
        if name == "rmse":
            # Standard error of a square root, to first order.
            errors[name] /= max(2 * np.sqrt(np.mean(each)), 1e-300)
        if name == "ece":
            random, n = np.random.default_rng(0), len(each)
            picks = random.integers(n, size=(50, n))
            drawn = [functions.binned_error(*each[pick].T) for pick in picks]
            errors[name] = float(np.std(drawn))
    return errors


def _rows(values: Array) -> Array:
    return values.reshape(len(values), -1).mean(axis=1)
