"""Estimators for tables: a distribution for each row, in three lines."""

import keras
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from keras_likelihood import likelihoods

from keras_likelihood.auditing.label_issues import find_label_issues
from keras_likelihood.likelihoods import Softmax
from keras_likelihood.metrics.functions import negative_log_likelihood
from keras_likelihood.models.conformal_distribution import interval_scores
from keras_likelihood.reading import load_model
from keras_likelihood.recalibration.conformal import Conformal as ClassSets
from keras_likelihood.recalibration.regression.conformal import (
    Conformal as Intervals,
)
from keras_likelihood.tabular import columns, training
from keras_likelihood.tabular.layers import TableFeatures
from keras_likelihood.tabular.network import MemberNetworks
from keras_likelihood.tabular.targets import (
    checked_likelihood,
    describe_likelihood,
)


_CALIBRATION_ROWS = 20_000
"""Intervals and sets of a large table are calibrated on a sample."""


class TableEstimator(BaseEstimator):
    """What `Regressor` and `Classifier` share."""

    def __init__(
        self, *, members=8, epochs=None, random_state=None, verbose=False
    ):
        self.members = members
        self.epochs = epochs
        self.random_state = random_state
        self.verbose = verbose

    callbacks: tuple = ()
    """Functions of the rounds of training done and of all rounds."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.non_deterministic = self.random_state is None
        return tags

    def fit(self, X, y, sample_weight=None):  # noqa: N803
        """Trains the networks, and calibrates them on rows not trained on.

        Args:
            X: a table of two rows or more: a DataFrame of pandas or polars, a
                dict of columns, or an array `(n, columns)`. Columns may hold
                numbers, dates and categories. NaN, `None` and texts such as
                "NA" are missing values.
            y: targets, `(n,)`.
            sample_weight: weights `>= 0`, `(n,)`. Defaults to ones.

        Returns:
            `self`
        """
        self._check_settings()
        cells = self._read(X, reset=True)
        if y is None:
            raise ValueError(
                "requires y to be passed, but the target y is None. "
                "Received: y=None"
            )
        weight = _checked_weight(sample_weight, len(cells[0]))
        check_consistent_length(cells[0], y)
        y = self._checked_targets(y, weight)
        names = getattr(self, "feature_names_in_", None)
        names = _numbered(len(cells)) if names is None else names
        self.columns_ = [
            columns.learn_column(str(name), values[weight > 0])
            for name, values in zip(names, cells, strict=True)
        ]
        if all(column.kind == "ignored" for column in self.columns_):
            raise ValueError(
                "A table needs a column that says something about the target: "
                "one that varies, and is not a text that differs in every "
                f"row. Received: {len(cells)} column(s) without one"
            )
        self._fit_rows(self._encode(cells), y, weight)
        return self

    def _check_settings(self):
        for name, least in {"members": 2, "epochs": 1}.items():
            value = getattr(self, name)
            if value is None and name == "epochs":
                continue
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(
                    f"`{name}` must be a whole number >= {least}. "
                    f"Received: {value!r}"
                )

    def _read(self, table, reset):
        """The cells of each column, after the checks of scikit-learn."""
        if isinstance(table, dict):
            _refuse_unequal(table)
            names, cells = columns.read_table(table)
            if reset:
                self.n_features_in_ = len(cells)
                self.feature_names_in_ = np.array(names, dtype=object)
        else:
            if not hasattr(table, "columns"):
                table = check_array(
                    table,
                    dtype=None,
                    ensure_all_finite="allow-nan",
                    ensure_min_samples=0,
                    estimator=self,
                    input_name="X",
                )
            validate_data(self, table, reset=reset, skip_check_array=True)
            _, cells = columns.read_table(table)
        rows = len(cells[0]) if cells else 0
        if rows < (2 if reset else 1) or not cells:
            raise ValueError(
                f"The table must have at least {2 if reset else 1} row(s) and "
                f"a column: 0 sample(s) or 1 sample are not enough. Received: "
                f"{rows} row(s) and {len(cells)} column(s)"
            )
        if len(cells) > columns.MOST_COLUMNS:
            raise ValueError(
                f"A table may have at most {columns.MOST_COLUMNS:,} columns. "
                f"Received: {len(cells):,}"
            )
        return cells

    def _encode(self, cells):
        encoded = [
            column.encode(values)
            for column, values in zip(self.columns_, cells, strict=True)
        ]
        return np.stack(encoded, axis=1).astype("float32")

    def encode(self, X) -> np.ndarray:  # noqa: N803
        """The input of `model` for the rows of a table, `(n, columns)`.

        Numbers stay, dates become days since 1970, and categories become
        codes. A missing value is NaN.
        """
        check_is_fitted(self)
        return self._encode(self._read(X, reset=False))

    def _fit_rows(self, x, y, weight):
        kept = weight > 0
        x, y, weight = x[kept], y[kept], weight[kept]
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        random = np.random.default_rng(seed)
        classes = len(self.classes_) if hasattr(self, "classes_") else None
        members = int(max(2, min(self.members, len(y) // 2)))
        folds = training.Folds.deal(
            len(y), members, random, y if classes else None
        )
        budget = training.Budget(len(y), self.epochs)
        features = TableFeatures.learn(
            self.columns_, x, self._about(), random=random
        )
        networks = MemberNetworks(
            self.likelihood_,
            members,
            classes=classes,
            dropout=budget.dropout,
            seed=seed,
        )
        model = training.build(features, networks, budget)
        networks.adapt(y, weight)
        training.train(
            model, x, y, weight, folds, budget, random, self._on_round
        )
        rows = np.arange(len(y))
        if len(y) > _CALIBRATION_ROWS:
            rows = np.sort(random.choice(rows, _CALIBRATION_ROWS, False))
        held = training.out_of_fold(model, x[rows], folds[rows], classes)
        self.scores_ = {"rows": len(y), **self._judge(held, y[rows])}
        features.about["scores"] = self.scores_
        self.calibration_rows_ = np.flatnonzero(kept)[rows]
        self.model_ = self._calibrated(model, held, y[rows])

    def _on_round(self, done, rounds):
        if self.verbose:
            print(f"round {done} of {rounds}", flush=True)
        for callback in self.callbacks:
            callback(done, rounds)

    def _about(self):
        """What the file of the model says about the estimator."""
        settings = self.get_params()
        state = settings["random_state"]
        if not isinstance(state, int | np.integer | None):
            settings["random_state"] = None
        return {
            "estimator": type(self).__name__,
            "settings": settings,
            "has_names": hasattr(self, "feature_names_in_"),
            "likelihood": self.likelihood_.name(),
            "classes": getattr(self, "classes_", np.zeros(0)).tolist(),
        }

    def save(self, path):
        """Writes one `.keras` file, which `load` reads."""
        check_is_fitted(self)
        self.model_.save(path)

    @classmethod
    def load(cls, path):
        """Reads an estimator that `save` wrote."""
        found = load(path)
        if not isinstance(found, cls):
            raise ValueError(
                f"{path}: the file must be of a {cls.__name__}. "
                f"Received: a {type(found).__name__}"
            )
        return found

    @property
    def model(self) -> keras.Model:
        """The Keras model, for the rows that `encode` returns."""
        check_is_fitted(self)
        return self.model_

    def summary(self) -> str:
        """What was learned from which columns, and how good it is."""
        check_is_fitted(self)
        kinds = [column.kind for column in self.columns_]
        counted = [
            f"{kinds.count(kind)} {word}"
            for kind, word in {
                "number": "of numbers",
                "date": "of dates",
                "category": "of categories",
                "ignored": "ignored",
            }.items()
            if kind in kinds
        ]
        lines = [
            f"{type(self).__name__} of {self.scores_['rows']:,} rows",
            f"Columns: {', '.join(counted)}",
            f"Likelihood: {describe_likelihood(self)}",
            "On rows that were not trained on: "
            + ", ".join(
                f"{name} {value:.4g}"
                for name, value in self.scores_.items()
                if name != "rows"
            ),
        ]
        return "\n".join(lines)


class Regressor(RegressorMixin, TableEstimator):
    """Predicts the distribution of a number from the columns of a table.

    ```python
    model = kl.tabular.Regressor().fit(X, y)
    model.predict(X_new)
    lower, upper = model.interval(X_new, 0.9)
    print(model.summary())
    ```

    Several networks are trained side by side. Their input layer knows numbers,
    dates, categories and missing values. Each network leaves out some of the
    rows, which choose its best epoch. The out-of-fold predictions calibrate
    the intervals and give the scores of `summary()`.

    The prediction is a mixture of the members' distributions. Where they
    disagree the model knows little: `predict_distribution(X).epistemic`.

    Intervals are calibrated as in cross-conformal prediction. Their coverage
    is close to what was asked if new rows are like the training rows. It has
    no strict guarantee, because the rows that calibrate an interval also
    chose the epoch of their members, and one member alone is less accurate
    than all.

    Args:
        likelihood: a `Likelihood` of one number, or its name. By default it is
            chosen from the targets: Student's t, or the negative binomial for
            counts, the log-normal for positive numbers over several orders of
            magnitude, and the beta distribution for shares. `summary()` names
            it.
        members: number of networks, `>= 2`. Defaults to 8.
        epochs: passes over the rows. Defaults to a number that depends on the
            number of rows.
        random_state: seed, `RandomState` or `None`. Defaults to `None`.
        verbose: whether to print the progress. Defaults to False.

    Attributes:
        model_: the Keras model, also `model`.
        columns_: how each column is read.
        likelihood_: the likelihood of the targets.
        scores_: dict of scores on rows that were not trained on: `NLL`, `RMSE`
            and `in 90 % interval`, the share of targets inside the intervals
            before they are calibrated.
        doubtful_rows_: rows whose targets fit worst, the worst first.
    """

    def __init__(
        self,
        *,
        likelihood=None,
        members: int = 8,
        epochs: int | None = None,
        random_state=None,
        verbose: bool = False,
    ):
        super().__init__(
            members=members,
            epochs=epochs,
            random_state=random_state,
            verbose=verbose,
        )
        self.likelihood = likelihood

    def _checked_targets(self, y, weight):
        y = check_array(
            column_or_1d(y, warn=True),
            ensure_2d=False,
            dtype="float64",
            input_name="y",
        )
        counted = y[weight > 0]
        if counted.min() == counted.max():
            raise ValueError(
                "The targets must differ: there is nothing to predict. "
                f"Received: {y[0]:g} in every row"
            )
        self.likelihood_ = checked_likelihood(self.likelihood, counted)
        return y

    def _judge(self, held, y):
        values = {
            "NLL": held.nll(y[:, None]),
            "RMSE": (held.mean() - y[:, None]) ** 2,
        }
        found = {k: float(_numpy(v).mean()) for k, v in values.items()}
        found["RMSE"] = found["RMSE"] ** 0.5
        inside = interval_scores(held, y[:, None]) <= 0.9
        found["in 90 % interval"] = float(inside.mean())
        return found

    def _calibrated(self, model, held, y):
        nll = _numpy(held.nll(y[:, None]))[:, 0]
        worst = np.argsort(-nll, kind="stable")[: max(1, len(y) // 100)]
        self.doubtful_rows_ = self.calibration_rows_[worst]
        conformal = Intervals(trust=1.0).fit_distribution(held, y[:, None])
        return conformal.extend(training.joined(model)).model

    def predict(self, X, statistic: str = "mean") -> np.ndarray:  # noqa: N803
        """The mean of each row's distribution, `(n,)`.

        Args:
            X: rows, as in `fit`.
            statistic: `"mean"` (default) or `"median"`.
        """
        if statistic not in ("mean", "median"):
            raise ValueError(
                "`statistic` must be 'mean' or 'median'. "
                f"Received: {statistic!r}"
            )
        found = self.predict_distribution(X)
        is_mean = statistic == "mean"
        value = found.mean() if is_mean else found.quantile(0.5)
        return _numpy(value)[:, 0].astype("float64")

    def predict_distribution(self, X):  # noqa: N803
        """The distribution of each row's target.

        Returns:
            An `EnsembleDistribution` of `(n, 1)` numbers with `nll`, `cdf`,
            `quantile`, `sample`, `mean`, `variance`, `aleatoric` and
            `epistemic`.
        """
        return self._calibrated_distribution(X).distribution

    def _calibrated_distribution(self, table):
        x = self.encode(table)
        size = training.predicted_rows(len(x))
        return self.model_.predict_distribution(x, batch_size=size)

    def interval(self, X, coverage: float = 0.9):  # noqa: N803
        """Calibrated intervals.

        Args:
            X: rows, as in `fit`.
            coverage: share of new targets inside, in (0, 1). Defaults to 0.9.

        Returns:
            `(lower, upper)`, each `(n,)`.
        """
        lower, upper = self._calibrated_distribution(X).interval(coverage)
        return lower[:, 0], upper[:, 0]


class Classifier(ClassifierMixin, TableEstimator):
    """Predicts calibrated class probabilities from the columns of a table.

    ```python
    model = kl.tabular.Classifier().fit(X, y)
    model.predict_proba(X_new)
    model.predict_set(X_new, 0.9)  # which classes are possible
    ```

    It is made as `Regressor` is. The out-of-fold probabilities calibrate the
    sets of classes, and show labels that are probably wrong.

    Args:
        members, epochs, random_state, verbose: as in `Regressor`.

    Attributes:
        model_, columns_: as in `Regressor`.
        classes_: the classes, in the order of the probabilities.
        scores_: dict of scores on rows that were not trained on: `NLL` and
            `accuracy`.
        doubtful_labels_: rows whose label is probably wrong (Northcutt et al.
            2021), the least probable label first.
    """

    def __init__(
        self,
        *,
        members: int = 8,
        epochs: int | None = None,
        random_state=None,
        verbose: bool = False,
    ):
        super().__init__(
            members=members,
            epochs=epochs,
            random_state=random_state,
            verbose=verbose,
        )

    def _checked_targets(self, y, weight):
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "f":
            check_array(y, ensure_2d=False, input_name="y")
        check_classification_targets(y)
        self.classes_ = np.unique(y[weight > 0])
        if len(self.classes_) < 2:
            raise ValueError(
                "A classifier needs at least two classes. Received: one class, "
                f"{self.classes_[0]!r}, in every row"
            )
        self.likelihood_ = Softmax
        return np.searchsorted(self.classes_, y).clip(0, len(self.classes_) - 1)

    def _judge(self, held, y):
        p = _numpy(held.class_probabilities())
        return {
            "NLL": negative_log_likelihood(y, p),
            "accuracy": float(np.mean(p.argmax(axis=1) == y)),
        }

    def _calibrated(self, model, held, y):
        p = _numpy(held.class_probabilities())
        issues = find_label_issues(y, p)
        found = np.flatnonzero(issues["is_label_issue"])
        found = found[np.argsort(issues["label_quality"][found])]
        self.doubtful_labels_ = self.calibration_rows_[found]
        sets = ClassSets().fit_arrays(p, y, from_logits=False)
        return sets.extend(training.joined(model, len(self.classes_))).model

    def predict_proba(self, X) -> np.ndarray:  # noqa: N803
        """Probability of each class, `(n, classes)`."""
        x = self.encode(X)
        p = training.predict_rows(self.model_, x).astype("float64")
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X) -> np.ndarray:  # noqa: N803
        """The most probable class of each row, `(n,)`."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_set(self, X, coverage: float = 0.9) -> np.ndarray:  # noqa: N803
        """Calibrated sets of classes, bool `(n, classes)`.

        Args:
            X: rows, as in `fit`.
            coverage: share of new labels in their set, in (0, 1). Defaults to
                0.9.
        """
        return self.model_.predict_set(self.encode(X), coverage)


def load(path):
    """Reads a `Regressor` or `Classifier` that `save` wrote.

    Args:
        path: the path of the `.keras` file.
    """
    model = load_model(path)
    layers = [v for v in model.layers if isinstance(v, TableFeatures)]
    if len(layers) != 1:
        raise ValueError(
            "The file must be one that `save` of `kl.tabular.Regressor` or "
            f"`kl.tabular.Classifier` wrote. Received: {path} with a "
            f"{type(model).__name__} of another kind"
        )
    about = layers[0].about
    kind = {c.__name__: c for c in (Regressor, Classifier)}[about["estimator"]]
    found = kind(**about["settings"])
    found.model_, found.columns_ = model, layers[0].columns
    found.scores_ = about["scores"]
    found.likelihood_ = likelihoods.get(about["likelihood"])
    found.n_features_in_ = len(found.columns_)
    if about["has_names"]:
        names = [column.name for column in found.columns_]
        found.feature_names_in_ = np.array(names, dtype=object)
    if about["classes"]:
        found.classes_ = np.array(about["classes"])
    return found


def _checked_weight(weight, rows):
    if weight is None:
        return np.ones(rows)
    weight = np.asarray(weight, "float64")
    weight = np.full(rows, weight) if weight.ndim == 0 else weight
    if weight.shape != (rows,) or not np.all((weight >= 0) & (weight < np.inf)):
        raise ValueError(
            f"`sample_weight` must be finite, >= 0 and of shape ({rows},). "
            f"Received: shape {weight.shape}"
        )
    if not weight.any():
        # These are the words that scikit-learn's own checks look for.
        raise ValueError(
            "Sample weights must contain at least one non-zero number. "
            f"Received: sample_weight={weight[:5]}"
        )
    return weight


def _refuse_unequal(table):
    sizes = {len(np.atleast_1d(values)) for values in table.values()}
    if len(sizes) > 1:
        raise ValueError(
            "All columns of a table must have the same number of rows. "
            f"Received: {sorted(sizes)}"
        )


def _numbered(count):
    return [f"column {at}" for at in range(count)]


def _numpy(values):
    return keras.ops.convert_to_numpy(values)
