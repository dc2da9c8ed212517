"""Gradients of the likelihood of held-out rows along the pull of priors."""

import itertools

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.weight_gradients import GradientFold
from keras_likelihood.evidence.fisher import other_variables
from keras_likelihood.regularizers.noise_prior import learned_noise

_BATCH, _MOST_ROWS = 128, 2048


class HeldOutSlopes:
    """Measures `sum g * pull` over the weights of every scale.

    For a noise scale that the loss learns it measures `sum g`.

    `g` is the gradient of the loss of held-out rows without penalties, and
    `pull` that of the prior. The loss is the model's own, with its weights and
    masks, so any loss will do.

    Args:
        model: a compiled model.
        weights: its `keras.Variable`s with an adaptive regularizer.
    """

    def __init__(self, model, weights):
        self._model = model
        noise = learned_noise(model)
        self._noise = [] if noise is None else [noise.unconstrained]
        self._weights = [*weights, *self._noise]
        self._sums = GradientFold(
            self._loss,
            self._weights,
            other_variables(model, self._weights),
            keras.random.SeedGenerator(0),
            self._add,
        )
        self._batches: itertools.cycle = itertools.cycle(())
        self._latest: list | None = None

    def use_rows(self, rows, seed: int):
        """Keeps batches of held-out rows on the device.

        Args:
            rows: `Rows` to draw from.
            seed: the random seed of their order.
        """
        drawn = rows.draw(_MOST_ROWS)
        count = len(keras.tree.flatten(drawn)[0])
        order = np.random.default_rng(seed).permutation(count)
        size = min(count, _BATCH)
        self._batches = itertools.cycle(
            keras.tree.map_structure(
                lambda a, i=i: ops.convert_to_tensor(
                    a[order[i : i + size]][None]
                ),
                drawn,
            )
            for i in range(0, count - size + 1, size)
        )
        self._latest = None

    def prepare(self):
        """Begins to compile, beside other work."""
        self._sums.prepare(self._zeros(), next(self._batches))

    def exchange(self) -> list | None:
        """Begins a measurement, and returns the one before.

        So nothing waits for the device.

        Returns:
            For each weight an array of the shape of its scales, then a number
            if a noise is learned; `None` the first time.
        """
        before = self._latest
        self._latest = self._sums(self._zeros(), next(self._batches))
        if before is None:
            return None
        return [ops.convert_to_numpy(s).astype("float64") for s in before]

    def _zeros(self):
        count = len(self._weights) - len(self._noise)
        shapes = [
            tuple(w.regularizer.log_scale.shape) for w in self._weights[:count]
        ]
        shapes += [(1,) * len(v.shape) for v in self._noise]
        return [ops.convert_to_tensor(np.zeros(s, "float32")) for s in shapes]

    def _loss(self, rows):
        model, x = self._model, rows["x"]
        given = rows.get("y"), model(x, training=False), rows.get("weight")
        if hasattr(model, "data_loss"):
            return model.data_loss(*given)
        loss = model.compute_loss(x, *given, training=False)
        return loss - sum(ops.cast(a, loss.dtype) for a in model.losses)

    def _add(self, total, gradients, values):
        found = []
        for weight, before, g, w in zip(
            self._weights, total, gradients, values, strict=True
        ):
            product = ops.cast(g, "float32")
            if not any(weight is v for v in self._noise):
                pull = weight.regularizer.pull(ops.cast(w, "float32"))
                product = product * pull
            axes = [i for i, n in enumerate(before.shape) if n == 1]
            found.append(before + ops.sum(product, axis=axes, keepdims=True))
        return found
