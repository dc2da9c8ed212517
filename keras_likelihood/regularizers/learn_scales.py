"""The callback that learns the scales of priors."""

import math
import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.compiled import assign_all
from keras_likelihood.backend.training_rows import Rows, check_rows, is_arrays
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.regularizers.fisher import outcomes_of
from keras_likelihood.regularizers.measurements import Measurements
from keras_likelihood.regularizers.noise_prior import attach_noise_prior
from keras_likelihood.regularizers.report import adaptive_weights
from keras_likelihood.regularizers.rules import Evidence, HeldOut, ScaleRule
from keras_likelihood.regularizers.site import Site


class LearnScales(keras.callbacks.Callback):
    """Learns the scales of adaptive regularizers during training.

    `LikelihoodModel.fit` adds this callback automatically. Each weight with an
    adaptive regularizer is a `Site`. The first rule that applies to it chooses
    its scales: by default `HeldOut` if there are held-out rows, else
    `Evidence`. Held-out rows are `validation_data` or `validation_split` of
    `LikelihoodModel.fit`, or those given here. The score on the rows that chose
    the strength is slightly optimistic. To use the validation data only for
    evaluation, hold out a share of the training rows instead:

    ```python
    model.fit(x, y, callbacks=[kl.regularizers.LearnScales(held_out=0.1)])
    ```

    For a stock model, pass the held-out rows, or the inputs and the likelihood
    whose prediction the model returns:

    ```python
    model.compile("adam", loss="sparse_categorical_crossentropy")
    learn = kl.regularizers.LearnScales(held_out=(x_val, y_val))
    learn = kl.regularizers.LearnScales(x=x, likelihood="softmax")
    model.fit(x, y, callbacks=[learn])
    ```

    It logs the number of effective weights as `effective_weights`, if a rule
    has measured it.

    Args:
        rules: list of `ScaleRule`s. Defaults to `[HeldOut(), Evidence()]`.
        held_out: rows `(x, y)` or `(x, y, sample_weight)`, a data set, or the
            share of the training rows, in (0, 1), that `LikelihoodModel.fit`
            takes off the end of its arrays.
        x: inputs of the training rows. `LikelihoodModel.fit` gives its own.
        likelihood: name of a likelihood or its class. Defaults to those of
            the model's losses.
        examples: largest number of rows in one measurement of the curvature.
        seed: seed of the sampled rows and targets.
        **parameters: values of the likelihood's parameters, by name.
    """

    def __init__(
        self,
        rules=None,
        *,
        held_out=None,
        x=None,
        likelihood=None,
        examples: int = 1024,
        seed: int = 0,
        **parameters,
    ):
        super().__init__()
        self.rules = [HeldOut(), Evidence()] if rules is None else list(rules)
        fits = all(isinstance(rule, ScaleRule) for rule in self.rules)
        check_argument("rules", rules, fits, "a list of `ScaleRule`s")
        fits = not isinstance(held_out, float | int) or 0 < held_out < 1
        check_argument("held_out", held_out, fits, "rows or a share in (0, 1)")
        self.share = held_out if isinstance(held_out, float) else None
        """Share of the training rows to hold out, or `None`."""
        self.held_out = None if self.share else held_out
        """The rows given here, or `None`."""
        self._x, self._examples, self._seed = x, examples, seed
        self._likelihood = likelihood and likelihoods.get(likelihood)
        self._parameters = parameters
        self.step, self._begun, self._rate = 0, 0, 0.0
        self.total_steps: int | None = None
        self.measurements: Any = None
        self._sites: list = []
        self._due: dict = {}
        self._made_for: tuple = ()
        self.use_rows()

    def use_rows(self, x=None, y=None, sample_weight=None, held_out=None):
        """Takes rows of a training, unless the callback was given its own.

        Args:
            x, y, sample_weight: training rows, or a data set.
            held_out: rows `(x, y[, sample_weight])`, a data set, or `None`.
        """
        trained = (x, y, sample_weight) if self._x is None else (self._x,)
        held_out = held_out if self.held_out is None else self.held_out
        is_parts = isinstance(held_out, tuple | list)
        parts = tuple(held_out) if is_parts else (held_out,)
        if is_arrays(parts[0]):
            # A loss of layers needs no targets of the validation data.
            check_rows(parts, least_parts=1 if self.held_out is None else 2)
        self._rows = [
            None if given[0] is None else Rows(*given, seed=self._seed)
            for given in (trained, parts)
        ]

    @property
    def progress(self) -> float:
        """See `Site.progress`."""
        return (self.step - self._begun) / (self.total_steps or math.inf)

    def share_of(self, site) -> float:
        """See `Site.share`."""
        sizes = {s: math.prod(s.variable.shape) for s in self._sites}
        return sizes[site] / sum(sizes.values())

    def on_train_begin(self, logs=None):
        model = self.model
        has_rows = self.share is None or self._rows[1] is not None
        allowed = "rows if the model is not a `LikelihoodModel`"
        check_argument("held_out", self.share, has_rows, allowed)
        weights = [
            w
            for w in adaptive_weights(model)
            if w.regularizer.claim(w).objective == "evidence"
            and w.regularizer.trainable
        ]
        for weight in weights:
            weight.regularizer.expect_callback()
        is_new = attach_noise_prior(model, weights)
        if is_new and getattr(model, "train_function", None):
            model.make_train_function(force=True)
        self._make_sites(model, weights)
        self._begin()

    def _make_sites(self, model, weights):
        """Reuses compiled programs, unless the model has changed."""
        made_for = model, getattr(model, "loss", None), *weights
        if [*map(id, made_for)] == [*map(id, self._made_for)]:
            for site in self._sites:
                site.forget_scale()
            return
        self._made_for, self._due = made_for, {}
        self._sites = [Site(w, self) for w in weights]
        outcomes = outcomes_of(model, self._likelihood, self._parameters)
        self.measurements = Measurements(
            model, weights, outcomes, examples=self._examples, seed=self._seed
        )
        most = self._rows[0].terms if self._rows[0] else None
        for weight in weights:
            count = weight.regularizer.num_examples
            if most and count > 1.5 * most:
                warnings.warn(
                    "`num_examples` is the number of likelihood terms in the "
                    f"training rows, which have at most {most}. Received: "
                    f"`num_examples={count:g}` for {weight.path}",
                    stacklevel=2,
                )

    def _begin(self):
        params = self.params or {}
        steps = self._epoch_steps = params.get("steps")
        self.total_steps = steps and steps * params.get("epochs", 1)
        self._begun = self._offset = self.step
        self._groups = []
        self._read_rate()
        if not self._sites:
            return
        self.measurements.use_rows(*self._rows)
        chosen: dict = {}
        for site in self._sites:
            rule = next((r for r in self.rules if r.applies(site)), None)
            chosen.setdefault(rule, []).append(site)
        if None in chosen:
            undecided = [site.variable.path for site in chosen.pop(None)]
            warnings.warn(
                "No rule can choose the scales of the regularizers of "
                f"{undecided}, so they stay as they are. Give held-out rows: "
                "`validation_data` of `LikelihoodModel.fit`, or `held_out` of "
                "`LearnScales`.",
                stacklevel=2,
            )
        for rule, sites in chosen.items():
            pause = max(rule.interval(site) for site in sites)
            # A loop of short fits counts as one training.
            due = self._due.get(rule, self.step)
            self._due[rule] = min(due, self.step + pause)
            self._groups.append((rule, sites, pause))
        most = self.total_steps or 0
        self.measurements.prepare(
            [rule for rule, _, pause in self._groups if pause <= most]
        )

    def on_train_batch_begin(self, batch, logs=None):
        # A callback with `on_train_batch_end` would make Keras read the loss
        # of every step, and so wait for an accelerator to end it.
        self.step = self._offset + batch
        self._move_if_due()

    def on_epoch_end(self, epoch, logs=None):
        self._offset += self._epoch_steps or self.step + 1 - self._offset
        self.step = self._offset
        self._read_rate()
        self._move_if_due()
        measured = sum(site.freedom for site in self._sites)
        if measured and logs is not None:
            logs["effective_weights"] = float(measured)

    def _move_if_due(self):
        for rule, sites, pause in self._groups:
            if self.step < self._due[rule]:
                continue
            # Reading `model` brings the variables up to date on JAX.
            _ = self.model
            for site in sites:
                prior, scale = site.prior, rule.scale(site)
                if scale is None:
                    continue
                # At this scale a step of SGD halves a weight. Other optimizers
                # normalise their steps, and L1 has a bounded gradient.
                rate = self._rate if prior.order >= 2 else 0.0
                least = 2.0 * rate * prior.factor / prior.num_examples
                site.scale = np.maximum(scale, np.sqrt(least))
            assign_all([c for site in sites for c in site.take_changes()])
            # The scales change most at the beginning.
            self._due[rule] = self.step + min(max(self.step, 16), pause)

    def _read_rate(self):
        """Reads the learning rate, at a time when all steps have ended."""
        optimizer = getattr(self._made_for[0], "optimizer", None)
        # In half precision Keras wraps it.
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        if isinstance(optimizer, keras.optimizers.SGD):
            self._rate = float(ops.convert_to_numpy(optimizer.learning_rate))
