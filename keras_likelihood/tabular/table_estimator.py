"""Base class of the estimators for tables."""

import dataclasses
from typing import Any, ClassVar, Self

import keras
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from keras_likelihood import likelihoods
from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.files import Path
from keras_likelihood.backend.threads import one_blas_thread
from keras_likelihood.backend.types import Array
from keras_likelihood.ensembles.member_networks import MemberNetworks
from keras_likelihood.likelihoods.checks import (
    as_weight,
    check_argument,
    check_seed,
)
from keras_likelihood.reading import load_model
from keras_likelihood.reading.graphs import full_precision
from keras_likelihood.tables import columns
from keras_likelihood.tables import reading as tables
from keras_likelihood.tables.table_features import TableFeatures, features_of
from keras_likelihood.tabular import targets, training
from keras_likelihood.tabular.batches import in_batches

_CALIBRATION_ROWS = 20_000
"""Intervals and sets of a large table are calibrated on a sample."""
_PLURALS = {"number": "numbers", "category": "categories", "date": "dates"}


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class TableEstimator(BaseEstimator):
    """Base class of `Regressor` and `Classifier`."""

    members: int = 8
    epochs: int | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    on_round: ClassVar[Any] = None
    """Function of the number of finished training rounds and of all rounds."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.non_deterministic = self.random_state is None
        return tags

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: str | None = None,
    ) -> Self:
        """Trains the networks and calibrates them on held-out rows.

        A file or batches may be larger than the memory: only 8 bytes per cell
        are needed, because equal texts are stored once.

        Args:
            X: a table of at least two rows: a DataFrame of pandas or polars, a
                dict of columns, an array `(n, columns)`, or the path of a
                `.csv` or `.parquet` file. Columns may hold numbers, dates and
                categories. NaN, `None` and texts such as "NA" are missing
                values. `X` may also be an iterable of batches `(X, y)` or
                `(X, y, sample_weight)`, or of tables with the column `target`.
            y: targets, `(n,)`.
            sample_weight: weights `>= 0`, `(n,)`. Defaults to ones.
            target: name of the column of `X` with the targets, instead of `y`.
                Rows without a target are ignored, with a warning.

        Returns:
            `self`
        """
        for name, least in {"members": 2, "epochs": 1}.items():
            value = getattr(self, name)
            is_whole = isinstance(value, int | np.integer) and value >= least
            fits = is_whole or (name, value) == ("epochs", None)
            check_argument(name, value, fits, f"a whole number >= {least}")
        X, y, weight = tables.with_targets(  # noqa: N806
            X, y, sample_weight, target
        )
        cells = self._read(X, reset=True)
        if y is None:
            # scikit-learn's checks look for this text.
            raise ValueError(
                "`fit` requires y to be passed, but the target y is None. "
                "Received: y=None and target=None"
            )
        weight = as_weight(weight, (len(cells[0]),))
        check_consistent_length(*cells, y)
        kept = weight > 0
        if not kept.all():
            cells = [values[kept] for values in cells]
        order = tables.order_of(y)
        y = self._checked_targets(column_or_1d(y, warn=True)[kept], order)
        names = getattr(self, "feature_names_in_", range(len(cells)))
        self.columns_ = [
            columns.learn_column(str(name), values)
            for name, values in zip(names, cells, strict=True)
        ]
        self.notes_ = columns.notes_of(self.columns_, cells)
        if all(column.kind == "ignored" for column in self.columns_):
            raise ValueError(
                "A table needs an informative column, no constant and no text "
                f"that differs in every row. Received: {len(cells)} column(s)"
            )
        self._fit_rows(self._encode(cells), y, weight[kept])
        self.held_out_["row"] = np.flatnonzero(kept)[self.held_out_["row"]]
        return self

    def _read(self, table: Any, reset: bool = False) -> list[Array]:
        """The cells of each column, after the checks of scikit-learn."""
        if tables.is_path(table):
            table = tables.read_file(table)
        # A sparse matrix may be a dict, too.
        is_dict = isinstance(table, dict) and not hasattr(table, "shape")
        if not hasattr(table, "columns") and not is_dict:
            options = {"ensure_all_finite": "allow-nan", "estimator": self}
            table = check_array(table, dtype=None, input_name="X", **options)
        names, cells = tables.read_columns(table)
        if not is_dict:
            validate_data(self, table, reset=reset, skip_check_array=True)
        elif reset:
            self.n_features_in_ = len(cells)
            self.feature_names_in_ = np.array(names, dtype=object)
        else:
            # More columns and another order are allowed.
            found = dict(zip(names or [], cells, strict=True))
            known = [column.name for column in self.columns_]
            if missing := [name for name in known if name not in found]:
                raise ValueError(
                    f"The table must have the columns of the training data. "
                    f"Received: no column {', '.join(missing[:10])}"
                )
            cells = [found[name] for name in known]
        rows, least = len(cells[0]) if cells else 0, 2 if reset else 1
        if rows < least or len(cells) > columns.MOST_COLUMNS:
            raise ValueError(
                f"A table must have at least {least} row(s), and from 1 to "
                f"{columns.MOST_COLUMNS:,} columns. Received: {rows} sample(s) "
                f"and {len(cells):,} column(s)"
            )
        return cells

    def _encode(self, cells: list[Array]) -> Array:
        x = np.empty((len(cells[0]), len(cells)), "float32")
        for at, column in enumerate(self.columns_):
            x[:, at] = column.encode(cells[at])
        return x

    def encode(self, X: Any) -> Array:  # noqa: N803
        """The input of `model` for the rows of a table, `(n, columns)`.

        Dates become days since 1970, and categories become codes. Numbers far
        from zero are centered, because float32 would round their differences;
        others do not change. A missing value is NaN.
        """
        check_is_fitted(self, "model_")
        return self._encode(self._read(X))

    def _fit_rows(self, x: Array, y: Array, weight: Array) -> None:
        check_seed("random_state", self.random_state)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        random = np.random.default_rng(seed)
        # A number has no classes.
        classes = len(getattr(self, "classes_", ())) or None
        labels = y if classes else None
        members = self.members_ = int(max(2, min(self.members, len(y) // 2)))
        out = training.deal_rows(len(y), members, random, labels)
        settings = training.Settings(len(y), self.epochs)
        features = TableFeatures.learn(self.columns_, x, random)
        networks = MemberNetworks(
            self.likelihood_.name(),
            members,
            classes=classes,
            hidden=settings.hidden,
            seed=seed,
        )
        inputs = in_batches(compiled(features), x)
        networks.build((None, inputs.shape[1]))
        networks.adapt(y, weight)
        trained = training.Training(
            networks,
            inputs,
            y,
            weight,
            out,
            settings,
            random,
            getattr(self, "label_noise", False),
        )
        _, converged = trained.run(self._show_round)
        if not converged and self.epochs is None:
            self.notes_.append(
                "The networks still improved at the end of the training. "
                f"More `epochs` than {settings.most_epochs:,} may help"
            )
        with one_blas_thread():
            trained.refit()
        rows = np.arange(len(y))
        if len(y) > _CALIBRATION_ROWS:
            rows = np.sort(random.choice(rows, _CALIBRATION_ROWS, False))
        self.held_out_ = {"row": rows, "x": x[rows], "y": y[rows]}
        some = inputs[rows], y[rows], out[rows], self._evaluate
        data = y, features, inputs, weight, out[:, 0], random
        with one_blas_thread():
            held_out, process, last = self._add_process(
                trained.held_out(*some), *data
            )
        y = y[rows]
        self.scores_ = {"rows": len(x), **self._judge(held_out, y)}
        features.about |= self._about()
        features.trainable = networks.trainable = False
        with full_precision():
            inputs = keras.Input((x.shape[1],), name="table")
            x = features(inputs)
            own = None if process is None else process(x)
            outputs = training.ensemble_outputs(networks(x), own, last)
            self.model_ = self._calibrated(inputs, outputs, held_out, y, last)

    def _add_process(self, held_out: Any, *data: Any) -> Any:
        """Held-out results with a `GaussianProcess`, it, and its weight."""
        return held_out, None, None

    def _show_round(self, done: int, rounds: int) -> None:
        if self.on_round is not None:
            self.on_round(done, rounds)
        elif self.verbose:
            print(f"training: round {done} of {rounds}", flush=True)

    def _about(self) -> dict[str, Any]:
        """What `load` needs in addition to the model, in JSON types."""
        settings = self.get_params()
        if not isinstance(self.random_state, int | np.integer):
            settings["random_state"] = None
        if not isinstance(settings.get("likelihood", ""), str | None):
            settings["likelihood"] = self.likelihood_.name()
        classes = getattr(self, "classes_", np.zeros(0)).tolist()
        if settings.get("order") is not None:
            settings["order"] = classes
        return {
            "estimator": type(self).__name__,
            "settings": settings,
            "has_names": hasattr(self, "feature_names_in_"),
            "likelihood": self.likelihood_.name(),
            "classes": classes,
            "scores": self.scores_,
            "notes": self.notes_,
        }

    def save(self, path: Path) -> None:
        """Writes one `.keras` file, which `kl.tabular.load` reads."""
        self.model.save(path)

    @property
    def model(self) -> keras.Model:
        """The Keras model, for the rows that `encode` returns."""
        check_is_fitted(self, "model_")
        return self.model_

    def unlike_training(self, X: Any) -> list[list[str]]:  # noqa: N803
        """Names of the columns in which each row is unlike all training rows.

        A number or date is outside of its training range or cannot be read, or
        a category was not seen in training. Predictions for these rows are
        unreliable.
        """
        cells = self._read(X)
        unlike = features_of(self.model).outside(self._encode(cells))
        for at, column in enumerate(self.columns_):
            unlike[:, at] |= column.unreadable(cells[at])
        names = np.array([column.name for column in self.columns_], object)
        return [names[row].tolist() for row in unlike]

    def summary(self) -> str:
        """The columns, the likelihood, the scores, and what to know of them."""
        check_is_fitted(self, "model_")
        kinds = [column.kind for column in self.columns_]
        counts = [
            f"{(count := kinds.count(kind))} "
            f"{kind if count == 1 else _PLURALS.get(kind, kind)}"
            for kind in (*_PLURALS, "ignored")
            if kind in kinds
        ]
        scores = dict(self.scores_)
        rows = scores.pop("rows")
        found = [
            f"{name} {columns.digits(value)}" for name, value in scores.items()
        ]
        return (
            f"{type(self).__name__} of {rows:,} rows\n"
            f"Columns: {', '.join(counts)}\n"
            f"Likelihood: {targets.describe_likelihood(self)}\n"
            f"On rows that were not trained on: {', '.join(found)}"
            + "".join(f"\n{note}" for note in self.notes_)
        )

    def report(self, path: Path = "report.html") -> str:
        """Writes an HTML page about the table and the model.

        This needs an estimator that was fitted, not one that was loaded.

        Args:
            path: path of the page. Defaults to `"report.html"`.

        Returns:
            The path.
        """
        check_is_fitted(self, "held_out_")
        from keras_likelihood.tabular.report import write_report

        return write_report(self, path)


def load(path: Any) -> Any:
    """Loads a `Regressor` or `Classifier` written by `save`.

    Args:
        path: the path of the `.keras` file, or its `keras.Model`.
    """
    model = load_model(path)
    features = features_of(model)
    about = features.about
    kinds = {kind.__name__: kind for kind in TableEstimator.__subclasses__()}
    found: Any = kinds[about["estimator"]](**about["settings"])
    found.model_, found.columns_ = model, features.columns
    found.scores_, found.notes_ = about["scores"], about.get("notes", [])
    found.likelihood_ = likelihoods.get(about["likelihood"])
    found.n_features_in_ = len(found.columns_)
    if about["has_names"]:
        names = [column.name for column in found.columns_]
        found.feature_names_in_ = np.array(names, dtype=object)
    if about["classes"]:
        found.classes_ = np.array(about["classes"])
    return found
