"""The callback that learns the scales of priors."""

import math
import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.private import mask_of
from keras_likelihood.backend.processes import parts_of_data
from keras_likelihood.backend.training_rows import (
    Rows,
    check_rows,
    is_arrays,
    split_batches,
    split_rows,
    split_stratified,
)
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.regularizers.held_out_slopes import (
    HeldOutSlopes,
    ScaleGroup,
)
from keras_likelihood.regularizers.leave_one_out import LinearModel
from keras_likelihood.regularizers.priors import attach_noise_prior
from keras_likelihood.regularizers.report import adaptive_weights

_MOVES = 100
"""Number of moves in a call of `fit` of known length."""


class LearnScales(keras.callbacks.Callback):
    """Learns the scales of adaptive regularizers during training.

    `LikelihoodModel.fit` adds this callback automatically. It chooses the
    scales in one of two ways:

    - **Held-out rows**: the scales follow the gradient of their NLL while the
      model trains. These are `validation_data` or `validation_split` of
      `LikelihoodModel.fit`, or `held_out`. Without any, `LikelihoodModel.fit`
      holds out a tenth of the training rows (stratified by the targets), and
      of a data set every tenth batch.
    - **Leave-one-out**: a model that is linear in its trained weights, without
      held-out rows, trains with all rows. Before training, approximate
      leave-one-out compares the scales of a grid.

    The score on validation rows that chose the strength is slightly
    optimistic. `held_out=0.1` keeps them for evaluation. A stock model needs
    the held-out rows or, if it is linear, the training rows:

    ```python
    model.compile("adam", loss="sparse_categorical_crossentropy")
    learn = kl.regularizers.LearnScales(held_out=(x_val, y_val))
    model.fit(x, y, callbacks=[learn])
    ```

    A step of training moves a weight along `-lambda p`, with the strength
    `lambda` and the gradient `p` of its prior. To first order, this changes the
    held-out NLL, with the gradient `g`, by `-lambda (g . p)` (Luketina et al.,
    2016). So the logarithm of the strength follows RMSProp on `-(g . p)`,
    summed over the weights that share it. `g` is a running mean over about five
    measurements, because one step ahead alone regularizes too strongly.

    L2 starts from the strength .01 (the factor .005 of Keras), and L1 from
    the strength that pulls the initial weights equally strongly, unless a
    prior has an `initial_scale`.

    Args:
        held_out: rows `(x, y)` or `(x, y, sample_weight)`, a data set, or the
            share of the training rows, in (0, 1), that `LikelihoodModel.fit`
            holds out.
        rows: training rows in the same form, by default those of `fit`.
        rate: step size in the logarithm of the strength. Defaults to 0.05. It
            falls to half of it during a call of `fit`, if its length is known.
        seed: seed of the held-out rows.
    """

    def __init__(
        self,
        *,
        held_out: Any = None,
        rows: Any = None,
        rate: float = 0.05,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_argument("rate", rate, rate > 0, "> 0")
        fits = not isinstance(held_out, float | int) or 0 < held_out < 1
        check_argument("held_out", held_out, fits, "rows or a share in (0, 1)")
        self.share = held_out if isinstance(held_out, float) else None
        """Share of the training rows to hold out, or `None`."""
        self.held_out = None if self.share else held_out
        """The rows given here, or `None`."""
        self.rate, self.seed = rate, seed
        self._own_rows = rows
        self._step = self._due = 0
        self._learns: tuple[Any, ...] = ()
        self._weights: list[Any] = []
        self._groups: list[ScaleGroup] = []
        self._slopes: HeldOutSlopes | None = None
        self._announced: str | None = None
        self._chosen_with: Any = None
        self.use_rows()

    def use_rows(
        self, rows: Any = None, held_out: Any = None, source: str = ""
    ) -> None:
        """Takes training rows and held-out rows, unless it has its own."""
        rows = rows if self._own_rows is None else self._own_rows
        if self.held_out is not None:
            held_out, source = self.held_out, "held-out rows"
        self._source = source or "validation rows"
        self._first_array = next(iter(keras.tree.flatten(rows)), None)
        self._rows, self._held_out = (
            _as_rows(part, self.seed, 1 if self.held_out is None else 2)
            for part in (rows, held_out)
        )

    def use_rows_of_fit(self, model: Any, given: dict[str, Any]) -> None:
        """Takes the rows of the arguments of `fit`; removes held-out ones."""
        names = ("x", "y", "sample_weight")
        rows, share = tuple(map(given.get, names)), self.share
        held_out, source = given.get("validation_data"), "validation rows"
        split = given.get("validation_split")
        if not (share or split) and held_out is None and self.held_out is None:
            share = 0.1 if _needs_held_out_rows(model) else None
        if share and is_arrays(rows[0]):
            rows, held_out = split_stratified(rows, rows[1], share, self.seed)
            given.update(zip(names, rows, strict=True))
            source = f"{len(keras.tree.flatten(held_out)[0])} training rows"
        elif self.share:
            raise ValueError(
                "`LearnScales(held_out=...)` with a fraction needs arrays. For "
                "a dataset, pass held-out rows. "
                f"Received: held_out={share} and {type(rows[0]).__name__}"
            )
        elif share and (parts := split_batches(rows[0])) is not None:
            given["x"], held_out = parts
            rows, source = (given["x"], None, None), "every tenth batch"
        elif split and held_out is None and is_arrays(rows[0]):
            rows, held_out = split_rows(rows, split)
        is_said = source in ("validation rows", self._announced)
        if not is_said and given.get("verbose") not in (0, "0"):
            self._announced = source
            print(
                f"Held out to choose the strength of the regularizers: {source}"
            )
        self.use_rows(rows, held_out, source)

    def on_train_begin(self, logs: Any = None) -> None:
        model = self.model
        fits = self.share is None or self._held_out is not None
        allowed = "rows if the model is not a `LikelihoodModel`"
        check_argument("held_out", self.share, fits, allowed)
        weights = learned_weights(model)
        is_new = attach_noise_prior(model, weights)
        if is_new and getattr(model, "train_function", None):
            model.make_train_function(force=True)
        params = self.params or {}
        steps = self._epoch_steps = params.get("steps")
        self._total_steps = steps and steps * params.get("epochs", 1)
        self._begun = self._offset = self._step
        self._moves = False
        if not weights:
            return
        readable = self._rows or self._held_out
        per_row = terms_per_row(model, readable) if readable else 1.0
        if self._rows and (count := self._rows.count(steps)):
            terms = count * per_row * parts_of_data()
            for prior in (weight.regularizer for weight in weights):
                if prior.num_examples is None:
                    prior.terms.assign(terms)
        learns = model, getattr(model, "loss", None), *weights
        if [*map(id, learns)] != [*map(id, self._learns)]:
            self._learns, self._weights, self._due = learns, weights, 0
            self._slopes, self._chosen_with = None, None
            groups: dict[Any, list[int]] = {}
            for i, prior in enumerate(w.regularizer for w in weights):
                key = type(prior) if prior.group == "model" else i
                groups.setdefault(key, []).append(i)
            self._groups = [ScaleGroup(weights, g) for g in groups.values()]
        self._choose_rows(per_row)

    def _choose_rows(self, per_row: float) -> None:
        model, weights = self.model, self._weights
        held_out, rows = self._held_out, self._rows
        if held_out is not None and held_out.can_be_read:
            if self._slopes is None:
                self._slopes = HeldOutSlopes(model, weights, per_row, self.seed)
            self._slopes.use_rows(held_out)
            self._start(self._source)
            self._moves = True
            # A fit of unknown length has a move every 16 steps.
            total = self._total_steps
            self._pause = max(total // _MOVES, 8) if total else 16
            self._due = min(self._due, self._step + self._pause)
            return
        linear = LinearModel.of(model, weights)
        if linear is not None and rows is not None and rows.can_be_read:
            # A loop of short fits chooses once.
            if self._chosen_with is not self._first_array:
                linear.choose_scale(rows, per_row)
                self._chosen_with = self._first_array
            weights[0].regularizer.source = "leave-one-out, all rows"
            return
        self._start("")
        warnings.warn(
            "The scales of the regularizers of "
            f"{[w.path for w in weights]} are not learned, because there are "
            "no rows to choose them. Give held-out rows: `validation_data` of "
            "`LikelihoodModel.fit`, or `held_out` of `LearnScales`.",
            stacklevel=2,
        )

    def _start(self, source: str) -> None:
        for weight in self._weights:
            weight.regularizer.source = source
        for group in self._groups:
            group.start()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        # A callback with `on_train_batch_end` would make Keras read the loss
        # of every step, and so wait for an accelerator to end it.
        self._step = self._offset + batch
        self._move_if_due()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._offset += self._epoch_steps or self._step + 1 - self._offset
        self._step = self._offset
        self._move_if_due()
        for weight in self._weights:
            prior = weight.regularizer
            prior.history.append(float(np.median(prior.strength())))

    def _move_if_due(self) -> None:
        if not self._moves or self._step < self._due or self._slopes is None:
            return
        # Reading `model` brings the variables up to date on JAX.
        _ = self.model
        if (measured := self._slopes.measure()) is not None:
            done = self._step - self._begun
            # Smaller steps at the end leave less noise in the strengths.
            rate = self.rate * (
                1 - 0.5 * done / (self._total_steps or math.inf)
            )
            slopes, *curvatures = measured
            for group in self._groups:
                group.move(slopes, rate)
            for weight, df, precision in zip(
                self._weights, *curvatures, strict=True
            ):
                if np.isfinite(df) and 0 < precision < np.inf:
                    weight.regularizer.freedom.assign(df)
                    weight.regularizer.log_precision.assign(np.log(precision))
        # The scales change most at the beginning.
        self._due = self._step + min(max(self._step, 16), self._pause)


def learned_weights(model: Any) -> list[Any]:
    """The weights whose scales the callback learns."""
    weights = []
    for weight in adaptive_weights(model):
        prior = weight.regularizer.claim(weight)
        prior.is_learned = True
        if prior.objective == "predictive" and prior.trainable:
            weights.append(weight)
    return weights


def _needs_held_out_rows(model: Any) -> bool:
    if not model.built or model.data_parameters:
        return False
    weights = learned_weights(model)
    return bool(weights) and LinearModel.of(model, weights) is None


def terms_per_row(model: Any, rows: Rows) -> float:
    """Mean number of likelihood terms in a row, such as 12 positions."""
    if not rows.can_be_read:
        return 1.0
    output, counts = model(rows.draw(32)["x"], training=False), [0.0]
    losses = getattr(model, "losses_by_output", None) or _by_key(model.loss)
    parts = getattr(model, "outputs_by_key", _by_key)(output)
    for key, loss in losses.items():
        prediction = ops.convert_to_tensor(split_output(parts[key])[0])
        # Losses of Keras reduce the last axis.
        rank = getattr(getattr(loss, "likelihood", None), "event_rank", 1)
        terms = math.prod(prediction.shape[1 : len(prediction.shape) - rank])
        mask = mask_of(prediction)
        share = 1.0 if mask is None else ops.convert_to_numpy(mask).mean()
        counts.append(terms * float(share))
    return max(counts) or 1.0


def _by_key(structure: Any) -> dict[Any, Any]:
    return structure if isinstance(structure, dict) else {"": structure}


def _as_rows(part: Any, seed: int, least_parts: int) -> Rows | None:
    """`Rows` of arrays or of a data set, or `None`."""
    parts = tuple(part) if isinstance(part, tuple | list) else (part,)
    if parts[0] is None:
        return None
    if is_arrays(parts[0]):
        # A loss of layers needs no targets of the validation data.
        check_rows(parts, least_parts=least_parts)
    return Rows(*parts, seed=seed)
