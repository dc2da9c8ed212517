"""Estimators for tables: a distribution for each row, in three lines."""

from typing import Any

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
from keras_likelihood.comparison.model_scores import crps
from keras_likelihood.data_parameters import DataParameter
from keras_likelihood.likelihoods import Softmax
from keras_likelihood.losses import NoisyLabelsLoss
from keras_likelihood.metrics.functions import negative_log_likelihood
from keras_likelihood.reading import load_model
from keras_likelihood.reading.targets import as_weight
from keras_likelihood.recalibration import Conformal
from keras_likelihood.tabular import columns, targets, training
from keras_likelihood.tabular.intervals import calibrated_intervals
from keras_likelihood.tabular.layers import TableFeatures
from keras_likelihood.tabular.network import MemberNetworks

_CALIBRATION_ROWS = 20_000
"""Intervals and sets of a large table are calibrated on a sample."""


class TableEstimator(BaseEstimator):
    """What `Regressor` and `Classifier` share."""

    on_round = None
    """A function of the rounds of training done and of all rounds."""

    def __init__(
        self,
        *,
        members: int = 8,
        epochs: int | None = None,
        random_state=None,
        verbose: bool = False,
    ):
        self.members = members
        self.epochs = epochs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
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
        for name, least in {"members": 2, "epochs": 1}.items():
            value = getattr(self, name)
            is_whole = isinstance(value, int | np.integer) and value >= least
            if not is_whole and (name, value) != ("epochs", None):
                raise ValueError(
                    f"`{name}` must be a whole number >= {least}. "
                    f"Received: {value!r}"
                )
        cells = self._read(X, reset=True)
        if y is None:
            # These are the words that scikit-learn's own checks look for.
            raise ValueError(
                "`fit` requires y to be passed, but the target y is None. "
                "Received: y=None"
            )
        weight = as_weight(sample_weight, (len(cells[0]),))
        check_consistent_length(*cells, y)
        y, kept = self._checked_targets(y, weight > 0), weight > 0
        names = getattr(self, "feature_names_in_", range(len(cells)))
        self.columns_ = [
            columns.learn_column(str(name), values[kept])
            for name, values in zip(names, cells, strict=True)
        ]
        if all(column.kind == "ignored" for column in self.columns_):
            raise ValueError(
                "A table needs a column that says something about the target: "
                "one that varies, and is not a text that differs in every "
                f"row. Received: {len(cells)} column(s) without one"
            )
        self._fit_rows(self._encode(cells)[kept], y[kept], weight[kept])
        self.held_out_["row"] = np.flatnonzero(kept)[self.held_out_["row"]]
        return self

    def _read(self, table, reset=False):
        """The cells of each column, after the checks of scikit-learn."""
        # A sparse matrix may be a dict, too.
        is_dict = isinstance(table, dict) and not hasattr(table, "shape")
        if not hasattr(table, "columns") and not is_dict:
            table = check_array(
                table,
                dtype=None,
                ensure_all_finite="allow-nan",
                estimator=self,
                input_name="X",
            )
        names, cells = columns.read_table(table)
        if not is_dict:
            validate_data(self, table, reset=reset, skip_check_array=True)
        elif reset:
            self.n_features_in_ = len(cells)
            self.feature_names_in_ = np.array(names, dtype=object)
        else:
            # Other columns and another order do no harm.
            known = [column.name for column in self.columns_]
            names = names or []
            if missing := [name for name in known if name not in names]:
                raise ValueError(
                    f"The table must have the columns of the training. "
                    f"Received: no column {', '.join(missing[:10])}"
                )
            cells = [cells[names.index(name)] for name in known]
        rows, least = len(cells[0]) if cells else 0, 2 if reset else 1
        if rows < least or len(cells) > columns.MOST_COLUMNS:
            raise ValueError(
                f"A table must have at least {least} row(s), and from 1 to "
                f"{columns.MOST_COLUMNS:,} columns. Received: {rows} sample(s) "
                f"and {len(cells):,} column(s)"
            )
        return cells

    def _encode(self, cells):
        if len(cells) != len(self.columns_):
            names = ", ".join(column.name for column in self.columns_[:20])
            raise ValueError(
                f"The table must have the columns {names}. "
                f"Received: {len(cells)} column(s)"
            )
        encoded = map(columns.Column.encode, self.columns_, cells)
        return np.stack(list(encoded), axis=1).astype("float32")

    def encode(self, X) -> np.ndarray:  # noqa: N803
        """The input of `model` for the rows of a table, `(n, columns)`.

        Numbers stay, dates become days since 1970, and categories become
        codes. A missing value is NaN.
        """
        check_is_fitted(self, "model_")
        return self._encode(self._read(X))

    def _fit_rows(self, x, y, weight):
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        random = np.random.default_rng(seed)
        classes = getattr(self, "classes_", None)
        labels = None if classes is None else y
        members = int(max(2, min(self.members, len(y) // 2)))
        folds = training.Folds.deal(len(y), members, random, labels)
        budget = training.Budget(len(y), self.epochs)
        features = TableFeatures.learn(self.columns_, x, random)
        networks = MemberNetworks(
            self.likelihood_,
            members,
            classes=None if classes is None else len(classes),
            hidden=budget.hidden,
            dropout=budget.dropout,
            seed=seed,
        )
        loss = self._training_loss(len(y))
        model = training.build(features, networks, budget, loss)
        networks.adapt(y, weight)
        training.train(
            model, x, y, weight, folds, budget, random, self._show_round
        )
        if loss is not None:
            # What served the training is not needed for predictions.
            model.compile(loss=training.loss_of(self.likelihood_))
        rows = np.arange(len(y))
        if len(y) > _CALIBRATION_ROWS:
            rows = np.sort(random.choice(rows, _CALIBRATION_ROWS, False))
        outputs, out = training.predict_rows(model, x[rows]), folds[rows].out
        held = training.out_of_fold(model, outputs, out)
        self.held_out_ = {"row": rows, "x": x[rows], "y": y[rows]}
        self.scores_ = {"rows": len(y), **self._judge(held, y[rows])}
        features.about |= self._about()
        alone = [
            training.out_of_fold(model, outputs, out[:, [at]])
            for at in range(out.shape[1])
        ]
        conformal = self._calibrate(alone, held, y[rows], members)
        self.model_ = conformal.extend(training.joined(model)).model

    def _training_loss(self, rows):
        """The loss of a training on so many rows, `None` for the default."""
        return None

    def _show_round(self, done, rounds):
        if self.on_round is not None:
            self.on_round(done, rounds)
        elif self.verbose:
            print(f"training: round {done} of {rounds}", flush=True)

    def _about(self):
        """What the file of the model says about the estimator."""
        settings = self.get_params()
        if not isinstance(self.random_state, int | np.integer):
            settings["random_state"] = None
        if not isinstance(settings.get("likelihood", ""), str | None):
            settings["likelihood"] = self.likelihood_.name()
        return {
            "estimator": type(self).__name__,
            "settings": settings,
            "has_names": hasattr(self, "feature_names_in_"),
            "likelihood": self.likelihood_.name(),
            "classes": getattr(self, "classes_", np.zeros(0)).tolist(),
            "scores": self.scores_,
        }

    def save(self, path):
        """Writes one `.keras` file, which `kl.tabular.load` reads."""
        self.model.save(path)

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
        check_is_fitted(self, "model_")
        return self.model_

    def unlike_training(self, X) -> list[list[str]]:  # noqa: N803
        """Names of the columns in which each row is unlike all training rows.

        A number or date is outside of the range in training, or a category
        was not seen there. Predictions for such rows are a guess.
        """
        x = self.encode(X)
        (features,) = _feature_layers(self.model_)
        unlike = features.outside(x)
        names = np.array([column.name for column in self.columns_], object)
        return [names[row].tolist() for row in unlike]

    def summary(self) -> str:
        """What was learned from which columns, and how good it is."""
        check_is_fitted(self, "model_")
        kinds = [f"{column.kind}s" for column in self.columns_]
        kinds = [k.replace("ys", "ies").replace("eds", "ed") for k in kinds]
        counts = [f"{kinds.count(k)} {k}" for k in sorted(set(kinds))]
        scores = [
            f"{name} {value:.4g}"
            for name, value in self.scores_.items()
            if name != "rows"
        ]
        return (
            f"{type(self).__name__} of {self.scores_['rows']:,} rows\n"
            f"Columns: {', '.join(counts)}\n"
            f"Likelihood: {targets.describe_likelihood(self)}\n"
            f"On rows that were not trained on: {', '.join(scores)}"
        )

    def report(self, path="report.html") -> str:
        """Writes a page about the table and the model, one HTML file.

        It must be the estimator that was fitted, not one that was loaded.

        Args:
            path: where to write the page. Defaults to `"report.html"`.

        Returns:
            The path.
        """
        check_is_fitted(self, "held_out_")
        from keras_likelihood.tabular.report import write_report

        return write_report(self, path)


class Regressor(RegressorMixin, TableEstimator):
    """Predicts the distribution of a number from the columns of a table.

    ```python
    model = kl.tabular.Regressor().fit(X, y)
    model.predict(X_new)
    lower, upper = model.interval(X_new, 0.9)
    print(model.summary())
    ```

    Several networks are trained side by side. Their first layer,
    `TableFeatures`, takes numbers, dates, categories and missing values. Each
    network leaves out some of the rows, and keeps the epoch that is best on
    them. The out-of-fold predictions calibrate the intervals and give the
    scores of `summary()`.

    The prediction is the mixture of the members. Where they disagree the model
    knows little: `predict_distribution(X).epistemic`.

    Intervals are calibrated by cross-conformal prediction (Vovk 2015). Their
    coverage is close to what was asked if new rows are like the training rows.
    It is not guaranteed, because the rows that calibrate also chose the epochs,
    and because their scores are extrapolated from few members to all. For a
    guarantee calibrate `model` with new rows by
    `kl.recalibration.regression.Conformal`.

    Args:
        likelihood: a `Likelihood` of one number, or its name. By default it is
            chosen from the targets: Student's t, or the negative binomial for
            counts, the log-normal for positive numbers over several orders of
            magnitude, and the beta distribution for shares. `summary()` names
            it.
        members: number of networks, `>= 2`. Defaults to 8.
        epochs: passes over the rows. The default depends on their number.
        random_state: seed, `RandomState` or `None`. Defaults to `None`.
        verbose: whether to show the progress. Defaults to False.

    Attributes:
        model_: the Keras model, also `model`.
        columns_: how each column is read.
        likelihood_: the likelihood of the targets.
        scores_: scores on rows that were not trained on: `NLL`, `CRPS`,
            `RMSE` and `in 90 % interval`, the share of targets inside the
            intervals before these are calibrated.
        doubtful_rows_: the hundredth of the rows whose targets fit worst.
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
        self.likelihood = likelihood
        super().__init__(
            members=members,
            epochs=epochs,
            random_state=random_state,
            verbose=verbose,
        )

    def _checked_targets(self, y, kept):
        y = column_or_1d(y, warn=True)
        y = check_array(y, ensure_2d=False, dtype="float64", input_name="y")
        if y[kept].min() == y[kept].max():
            raise ValueError(
                "The targets must differ: there is nothing to predict. "
                f"Received: {y[kept][0]:g} in every row"
            )
        self.likelihood_ = targets.checked_likelihood(self.likelihood, y[kept])
        return y

    def _judge(self, held, y):
        y = y[:, None]
        nll, cdf = _numpy(held.nll(y))[:, 0], _numpy(held.cdf(y))[:, 0]
        prediction = _numpy(held.mean())[:, 0]
        self.held_out_ |= {"nll": nll, "cdf": cdf, "prediction": prediction}
        error = np.mean((prediction - y[:, 0]) ** 2)
        return {
            "NLL": float(nll.mean()),
            "CRPS": float(crps(held, y).mean()),
            "RMSE": float(error**0.5),
            "in 90 % interval": float(np.mean(np.abs(2 * cdf - 1) <= 0.9)),
        }

    @property
    def doubtful_rows_(self) -> np.ndarray:
        nll = self.held_out_["nll"]
        worst = np.argsort(-nll, kind="stable")[: max(1, len(nll) // 100)]
        return self.held_out_["row"][worst]

    def _calibrate(self, alone, held, y, members):
        return calibrated_intervals(alone, held, y[:, None], members)

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
        found = found.mean() if statistic == "mean" else found.quantile(0.5)
        return found[:, 0]

    def predict_distribution(self, X):  # noqa: N803
        """The distribution of each row's target.

        Returns:
            An `EnsembleDistribution` of `(n, 1)` numbers with `nll`, `cdf`,
            `quantile`, `sample`, `mean`, `variance`, `aleatoric` and
            `epistemic`.
        """
        return self._with_intervals(X).distribution

    def _with_intervals(self, table):
        x = self.encode(table)
        size = training.batch_of(x)
        return self.model_.predict_distribution(x, batch_size=size)

    def interval(self, X, coverage: float = 0.9):  # noqa: N803
        """Calibrated intervals.

        Args:
            X: rows, as in `fit`.
            coverage: share of new targets inside, in (0, 1). Defaults to 0.9.

        Returns:
            `(lower, upper)`, each `(n,)`.
        """
        lower, upper = self._with_intervals(X).interval(coverage)
        return lower[:, 0], upper[:, 0]


class Classifier(ClassifierMixin, TableEstimator):
    """Predicts class probabilities from the columns of a table.

    ```python
    model = kl.tabular.Classifier().fit(X, y)
    model.predict_proba(X_new)
    model.predict_set(X_new, 0.9)  # which classes are possible
    ```

    It is made as `Regressor` is. The out-of-fold probabilities calibrate the
    sets of classes, and show labels that are probably wrong.

    Args:
        label_noise: whether many labels are wrong. Then the networks are
            trained with `kl.losses.NoisyLabelsLoss` (Liu et al. 2020), which
            hardly learns wrong labels by heart. Defaults to False.
        members, epochs, random_state, verbose: as in `Regressor`.

    Attributes:
        model_, columns_: as in `Regressor`.
        classes_: the classes, in the order of the probabilities.
        scores_: scores on rows that were not trained on: `NLL` and `accuracy`.
        doubtful_labels_: rows whose label is probably wrong (Northcutt et al.
            2021), the least probable label first.
    """

    def __init__(
        self,
        *,
        label_noise: bool = False,
        members: int = 8,
        epochs: int | None = None,
        random_state=None,
        verbose: bool = False,
    ):
        self.label_noise = label_noise
        super().__init__(
            members=members,
            epochs=epochs,
            random_state=random_state,
            verbose=verbose,
        )

    def _training_loss(self, rows):
        if not self.label_noise:
            return None
        return NoisyLabelsLoss(DataParameter(rows, dimension="element"))

    def _checked_targets(self, y, kept):
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "f":
            check_array(y, ensure_2d=False, input_name="y")
        check_classification_targets(y)
        self.classes_ = np.unique(y[kept])
        if len(self.classes_) < 2:
            raise ValueError(
                "A classifier needs at least two classes. Received: one class, "
                f"{str(self.classes_[0])!r}, in every row"
            )
        self.likelihood_ = Softmax
        last = len(self.classes_) - 1
        return np.searchsorted(self.classes_, y).clip(0, last)

    def _judge(self, held, y):
        p = _numpy(held.class_probabilities())
        issues = find_label_issues(y, p)
        found = np.flatnonzero(issues["is_label_issue"])
        found = found[np.argsort(issues["label_quality"][found])]
        self.held_out_ |= {"probabilities": p, "issues": found}
        accuracy = float(np.mean(p.argmax(axis=1) == y))
        return {"NLL": negative_log_likelihood(y, p), "accuracy": accuracy}

    @property
    def doubtful_labels_(self) -> np.ndarray:
        return self.held_out_["row"][self.held_out_["issues"]]

    def _calibrate(self, alone, held, y, members):
        p = self.held_out_["probabilities"]
        return Conformal().fit_arrays(p, y, from_logits=False)

    def predict_proba(self, X) -> np.ndarray:  # noqa: N803
        """Probability of each class, `(n, classes)`."""
        x = self.encode(X)
        p = training.predict_rows(self.model_, x).astype("float64")
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X) -> np.ndarray:  # noqa: N803
        """The most probable class of each row, `(n,)`."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(axis=1)]

    def predict_set(self, X, coverage: float = 0.9) -> np.ndarray:  # noqa: N803
        """Calibrated sets of classes, bool `(n, classes)`.

        Args:
            X: rows, as in `fit`.
            coverage: share of new labels in their set, in (0, 1). Defaults to
                0.9.
        """
        return self.model.predict_set(self.encode(X), coverage)


def load(path):
    """Reads a `Regressor` or `Classifier` that `save` wrote.

    Args:
        path: the path of the `.keras` file.
    """
    return estimator_of(load_model(path))


def estimator_of(model: keras.Model):
    """The estimator whose `model` it is."""
    layers = _feature_layers(model)
    if len(layers) != 1:
        raise ValueError(
            "The model must be one that `kl.tabular.Regressor` or "
            "`kl.tabular.Classifier` saved. Received: a "
            f"{type(model).__name__} of another kind"
        )
    about = layers[0].about
    is_regressor = about["estimator"] == "Regressor"
    kind: type[TableEstimator] = Regressor if is_regressor else Classifier
    found: Any = kind(**about["settings"])
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


def _feature_layers(model):
    return [v for v in model.layers if isinstance(v, TableFeatures)]


def _numpy(values):
    return keras.ops.convert_to_numpy(values)
