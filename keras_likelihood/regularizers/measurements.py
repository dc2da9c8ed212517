"""Curvature and held-out gradients of regularized weights, on demand."""

import functools
import itertools
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.gradients import GradientFold, zeros
from keras_likelihood.likelihoods.checks import to_float64
from keras_likelihood.regularizers.fisher import FisherInformation
from keras_likelihood.regularizers.noise_prior import learned_noise
from keras_likelihood.regularizers.rules import Evidence, HeldOut

_BATCH, _MOST_ROWS = 128, 2048
_DECAY = 0.8


class Measurements:
    """Curvature and held-out slopes of the weights of a model.

    A held-out slope is `sum g * pull` over the entries of a scale, and `sum g`
    for a noise scale that the loss learns. `g` is a running mean of the
    gradient of the loss of held-out rows without penalties, and `pull` that of
    the prior (see `HeldOut`). The loss is the model's own, with its weights
    and masks, so any loss will do.
    """

    def __init__(self, model, weights, outcomes, *, examples: int, seed: int):
        self._model, self._weights = model, weights
        self._examples, self._seed = examples, seed
        noise = learned_noise(model)
        self._noise = [] if noise is None else [noise.unconstrained]
        measured = [*weights, *self._noise]
        seeds = keras.random.SeedGenerator(0)
        self._slopes = GradientFold(
            self._held_out_loss, model, measured, seeds, self._add_slopes
        )
        self._fisher = outcomes and FisherInformation(
            model, weights, outcomes, self._noise_scale, seed
        )
        self._shapes = [tuple(w.regularizer.log_scale.shape) for w in weights]
        self._shapes += [(1,) * len(v.shape) for v in self._noise]
        # All slopes in one vector, and the running means of the gradients.
        sizes = [*map(math.prod, self._shapes)]
        self._ends = np.cumsum(sizes)[:-1]
        self._start = zeros((sum(sizes),)), [zeros(v.shape) for v in measured]
        self._rows: Any = None
        self._batches: Any = None
        self._latest: Any = None
        self._found: list | None = None
        self._found_at: int | None = None

    def use_rows(self, rows, held_out):
        """Takes the `Rows` of a training and those held out, or `None`."""
        can_read = [r is not None and r.can_be_read for r in (rows, held_out)]
        self.has_held_out = can_read[1]
        self.has_curvature = can_read[0] and self._fisher is not None
        self._rows, self._latest, self._found_at = rows, None, None
        if self.has_held_out:
            self._batches = itertools.cycle(self._batch(held_out))

    def _batch(self, held_out):
        """Batches of held-out rows, in a random order, on the device."""
        drawn = held_out.draw(_MOST_ROWS)
        count = len(keras.tree.flatten(drawn)[0])
        order = np.random.default_rng(self._seed).permutation(count)
        size = min(count, _BATCH)
        return [
            keras.tree.map_structure(
                lambda a, rows=rows: ops.convert_to_tensor(a[rows]), drawn
            )
            for rows in order[: count - count % size].reshape(-1, 1, size)
        ]

    def prepare(self, rules: list):
        """Begins to compile, while the training step is compiled."""
        if any(isinstance(r, HeldOut) for r in rules) and self.has_held_out:
            self._slopes.prepare(self._start, next(self._batches))
        if any(isinstance(r, Evidence) for r in rules) and self.has_curvature:
            self._fisher.prepare(self._rows.draw(self._examples))

    def held_out_slopes(self, weight, step: int):
        """Slopes of the weight and of the noise; each may be `None`.

        They are the result of the previous measurement, so that the host does
        not wait for the device.
        """
        if self._found_at != step:
            self._found_at, before = step, self._latest
            self._latest, means = self._slopes(self._start, next(self._batches))
            self._start = self._start[0], means
            self._found = None if before is None else self._split(before)
        if self._found is None:
            return None, None
        noise = self._found[-1].item() if self._noise else None
        return self._found[self._index(weight)], noise

    def _split(self, slopes):
        parts = np.split(to_float64(slopes), self._ends)
        return [*map(np.reshape, parts, self._shapes)]

    def curvature(self, weight, step: int):
        """See `Site.curvature`."""
        draw = functools.partial(self._rows.draw, self._examples)
        self._fisher.measure_if_due(step, draw)
        examples = weight.regularizer.num_examples
        return self._fisher.curvature_of(self._index(weight), examples)

    def _index(self, weight):
        return next(i for i, w in enumerate(self._weights) if w is weight)

    def _held_out_loss(self, rows):
        model, x = self._model, rows["x"]
        # In front of batch normalisation the size of a weight has no effect
        # in training. With moving averages it would seem to have one.
        given = rows.get("y"), model(x, training=True), rows.get("weight")
        if hasattr(model, "data_loss"):
            return model.data_loss(*given)
        loss = model.compute_loss(x, *given, training=False)
        return loss - sum(ops.cast(a, loss.dtype) for a in model.losses)

    def _add_slopes(self, total, gradients, values):
        means = []
        for mean, gradient in zip(total[1], gradients, strict=True):
            g = ops.cast(gradient, "float32")
            moved = _DECAY * mean + (1 - _DECAY) * g
            # Half precision may overflow.
            means.append(ops.where(ops.isfinite(ops.sum(g)), moved, mean))
        products, slopes = list(means), []
        for i, weight in enumerate(self._weights):
            pull = weight.regularizer.pull(ops.cast(values[i], "float32"))
            products[i] = means[i] * pull
        for shape, product in zip(self._shapes, products, strict=True):
            axes = [i for i, n in enumerate(shape) if n == 1]
            slopes.append(ops.reshape(ops.sum(product, axis=axes), (-1,)))
        return ops.concatenate(slopes), means

    def _noise_scale(self):
        noise = learned_noise(self._model)
        value = 1.0 if noise is None else noise.latest
        return float(np.exp(np.mean(np.log(value))))
