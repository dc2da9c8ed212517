"""What the data say about regularized weights, measured when it is asked."""

from typing import Any

import numpy as np
from keras import ops

from keras_likelihood.evidence.fisher import FisherInformation
from keras_likelihood.regularizers.held_out_slopes import HeldOutSlopes
from keras_likelihood.regularizers.noise_prior import learned_noise


class Measurements:
    """Curvature and held-out slopes of the weights of a model.

    Args:
        model: a compiled model.
        weights: its `keras.Variable`s with an adaptive regularizer.
        outcomes: what `outcomes_of` returned for the model.
        examples: number of rows that one measurement uses at most.
        seed: of the drawn rows and targets.
    """

    def __init__(self, model, weights, outcomes, *, examples: int, seed: int):
        self._model, self._weights = model, weights
        self._examples, self._seed = examples, seed
        self._slopes = HeldOutSlopes(model, weights)
        self._fisher = outcomes and FisherInformation(
            model, weights, outcomes, self._noise, seed
        )
        self.rows: Any = None
        self._held_out: Any = None
        self._found: list | None = None
        self._found_at: int | None = None

    def use_rows(self, rows, held_out):
        """Takes the `Rows` of a training and those held out, or `None`."""
        self.rows, self._held_out, self._found_at = rows, held_out, None
        if held_out is not None:
            self._slopes.use_rows(held_out, self._seed)

    @property
    def has_held_out(self) -> bool:
        """Whether there are held-out rows."""
        return self._held_out is not None

    @property
    def has_curvature(self) -> bool:
        """Whether the curvature can be measured."""
        return self._fisher is not None and self.rows is not None

    def prepare(self, *, held_out: bool, curvature: bool):
        """Begins to compile, while the training step is compiled."""
        if held_out and self.has_held_out:
            self._slopes.prepare()
        if curvature and self.has_curvature:
            self._fisher.prepare(self.rows.draw(self._examples))

    def held_out_slopes(self, weight, step: int):
        """`(slope of the weight, slope of the noise)`; each may be `None`."""
        if self._found_at != step:
            self._found, self._found_at = self._slopes.exchange(), step
        if self._found is None:
            return None, None
        extra = self._found[len(self._weights) :]
        return self._found[self._index(weight)], (
            float(extra[0].item()) if extra else None
        )

    def curvature(self, weight, step: int):
        """See `Site.curvature`."""
        self._fisher.measure_if_due(
            step, lambda: self.rows.draw(self._examples)
        )
        return self._fisher.curvature_of(
            self._index(weight), weight.regularizer.num_examples
        )

    def _index(self, weight):
        return next(i for i, w in enumerate(self._weights) if w is weight)

    def _noise(self):
        """The learned scale of the likelihood, 1 if there is none."""
        noise = learned_noise(self._model)
        if noise is None:
            return 1.0
        value = ops.convert_to_numpy(noise.value()).astype("float64")
        return float(np.exp(np.mean(np.log(value))))
