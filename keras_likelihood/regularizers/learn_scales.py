"""The callback that learns the scales of priors."""

import math
import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.private import mask_of
from keras_likelihood.backend.processes import parts_of_data
from keras_likelihood.backend.training_rows import Rows, check_rows, is_arrays
from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.checks import check_argument, to_float64
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.regularizers.held_out_slopes import HeldOutSlopes, Slopes
from keras_likelihood.regularizers.leave_one_out import LinearModel
from keras_likelihood.regularizers.noise_prior import attach_noise_prior
from keras_likelihood.regularizers.report import adaptive_weights
from keras_likelihood.regularizers.rules import (
    RMSPropStep,
    next_scales,
    starting_scales,
)

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
      held-out rows, trains with all rows. Before training, the scales of a
      grid are compared by approximate leave-one-out.

    The score on validation rows that chose the strength is slightly
    optimistic. To use the validation data only for evaluation, hold out a
    share of the training rows with `held_out=0.1`. A stock model needs the
    held-out rows or, if it is linear, the training rows:

    ```python
    model.compile("adam", loss="sparse_categorical_crossentropy")
    learn = kl.regularizers.LearnScales(held_out=(x_val, y_val))
    model.fit(x, y, callbacks=[learn])
    ```

    A step of training with the strength `lambda` moves a weight by
    `-rate * lambda * p`, where `p` is the gradient of its prior: `w` for L2
    and `sign(w)` for L1. To first order, the NLL of held-out rows, with the
    gradient `g`, changes with the strength by

        d NLL / d log(lambda) = -rate * lambda * (g . p)

    (Luketina et al., 2016). So the logarithm of the strength follows RMSProp
    on `-(g . p)`, summed over the weights that share it. Looking one step ahead
    regularizes deep networks too strongly, so `g` is a running mean over about
    five measurements, which adds what training has done to the held-out NLL
    since then. Where the size of a weight has no effect, as in front of batch
    normalization, the slope is 0.

    L2 starts from the strength .01 (the factor .005 of Keras), and L1 from
    the strength that pulls the initial weights equally strongly, unless a
    prior has an `initial_scale`.

    Reference: J. Luketina, M. Berglund, K. Greff, T. Raiko, *Scalable
    gradient-based tuning of continuous regularization hyperparameters*, ICML
    2016.

    Args:
        held_out: rows `(x, y)` or `(x, y, sample_weight)`, a data set, or the
            share of the training rows, in (0, 1), that `LikelihoodModel.fit`
            holds out.
        rows: training rows `(x, y)` or `(x, y, sample_weight)`, or a data set.
            `LikelihoodModel.fit` gives its own.
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
        self._slopes: HeldOutSlopes | None = None
        self._announced: str | None = None
        self._chosen_with: Any = None
        self.use_rows()

    def use_rows(
        self, rows: Any = None, held_out: Any = None, source: str = ""
    ) -> None:
        """Takes training rows and held-out rows, unless it has its own.

        `source` says which rows were held out, for `report`.
        """
        rows = rows if self._own_rows is None else self._own_rows
        if self.held_out is not None:
            held_out, source = self.held_out, "held-out rows"
        self._source = source or "validation rows"
        self._first_array = next(iter(keras.tree.flatten(rows)), None)
        self._rows, self._held_out = (
            _as_rows(part, self.seed, 1 if self.held_out is None else 2)
            for part in (rows, held_out)
        )

    def say_once(self, source: str, verbose: Any) -> None:
        """Prints which rows are held out, once, if `fit` prints."""
        if verbose not in (0, "0") and source != self._announced:
            self._announced = source
            print(
                f"Held out to choose the strength of the regularizers: {source}"
            )

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
        self._groups: list[list[int]] = []
        if not weights:
            return
        readable = self._rows or self._held_out
        per_row = terms_per_row(model, readable) if readable else 1.0
        if self._rows and (count := self._rows.count(steps)):
            terms = count * per_row * parts_of_data()
            for weight in weights:
                weight.regularizer.count_terms(terms)
        learns = model, getattr(model, "loss", None), *weights
        if [*map(id, learns)] != [*map(id, self._learns)]:
            self._learns, self._weights, self._due = learns, weights, 0
            self._slopes, self._chosen_with = None, None
            self._steps = [RMSPropStep() for _ in weights]
        self._scales = [to_float64(w.regularizer.scale()) for w in weights]
        self._terms = max(float(to_float64(weights[0].regularizer.terms)), 1.0)
        self._choose_rows(per_row)

    def _choose_rows(self, per_row: float) -> None:
        model, weights = self.model, self._weights
        held_out, rows = self._held_out, self._rows
        if held_out is not None and held_out.can_be_read:
            if self._slopes is None:
                self._slopes = HeldOutSlopes(model, weights, per_row, self.seed)
            self._slopes.use_rows(held_out)
            self._start(self._source)
            # A fit of unknown length has a move every 16 steps.
            total = self._total_steps
            self._pause = max(total // _MOVES, 8) if total else 16
            self._due = min(self._due, self._step + self._pause)
            if self._pause <= (total or 0):
                self._slopes.prepare()
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
        self._groups = []
        warnings.warn(
            "The scales of the regularizers of "
            f"{[w.path for w in weights]} are not learned, because there are "
            "no rows to choose them. Give held-out rows: `validation_data` of "
            "`LikelihoodModel.fit`, or `held_out` of `LearnScales`.",
            stacklevel=2,
        )

    def _start(self, source: str) -> None:
        """Groups the weights whose scales are chosen together, and starts."""
        groups: dict[Any, list[int]] = {}
        for i, weight in enumerate(self._weights):
            prior = weight.regularizer
            prior.source = source
            key = type(prior) if prior.group == "model" else i
            groups.setdefault(key, []).append(i)
        self._groups = [*groups.values()]
        for group in self._groups:
            weights = [self._weights[i] for i in group]
            scales = [self._scales[i] for i in group]
            if started := starting_scales(weights, scales, self._terms):
                self._set_scales(group, started)

    def _set_scales(self, group: list[int], scales: list[Array]) -> None:
        for i, scale in zip(group, scales, strict=True):
            # Reading it back would wait until an accelerator ends its steps.
            self._scales[i] = scale
            self._weights[i].regularizer.set_scale(scale)

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
        if not self._groups or self._step < self._due or self._slopes is None:
            return
        # Reading `model` brings the variables up to date on JAX.
        _ = self.model
        if (measured := self._slopes.measure()) is not None:
            done = self._step - self._begun
            # Smaller steps at the end leave less noise in the strengths.
            rate = self.rate * (
                1 - 0.5 * done / (self._total_steps or math.inf)
            )
            self._note_freedom(measured)
            for step, group in zip(self._steps, self._groups, strict=False):
                prior = self._weights[group[0]].regularizer
                scales = [self._scales[i] for i in group]
                slopes = [measured.slopes[i] for i in group]
                scales = next_scales(prior, scales, slopes, step, rate)
                self._set_scales(group, scales)
        # The scales change most at the beginning.
        self._due = self._step + min(max(self._step, 16), self._pause)

    def _note_freedom(self, measured: Slopes) -> None:
        for weight, df, precision in zip(
            self._weights, measured.freedom, measured.precision, strict=True
        ):
            if np.isfinite(df) and 0 < precision < np.inf:
                weight.regularizer.freedom.assign(df)
                weight.regularizer.log_precision.assign(np.log(precision))


def learned_weights(model: Any) -> list[Any]:
    """The weights whose scales the callback learns."""
    weights = []
    for weight in adaptive_weights(model):
        prior = weight.regularizer.claim(weight)
        prior.expect_callback()
        if prior.objective == "predictive" and prior.trainable:
            weights.append(weight)
    return weights


def terms_per_row(model: Any, rows: Rows) -> float:
    """Mean number of likelihood terms in a row, such as 12 positions."""
    if not rows.can_be_read:
        return 1.0
    output, counts = model(rows.draw(32)["x"], training=False), [0.0]
    losses = getattr(model, "losses_by_output", None)
    losses = losses or _parts(getattr(model, "loss", None))
    parts = getattr(model, "outputs_by_key", _parts)(output)
    for key, loss in losses.items():
        prediction = ops.convert_to_tensor(split_output(parts[key])[0])
        # Losses of Keras reduce the last axis.
        rank = getattr(getattr(loss, "likelihood", None), "event_rank", 1)
        terms = math.prod(prediction.shape[1 : len(prediction.shape) - rank])
        mask = mask_of(prediction)
        share = 1.0 if mask is None else ops.convert_to_numpy(mask).mean()
        counts.append(terms * float(share))
    return max(counts) or 1.0


def _parts(structure: Any) -> dict[Any, Any]:
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
