"""The quantile likelihood, for several quantiles of one target."""

import math
from typing import Any

import numpy as np
from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.constraints import Increasing, ShiftedSoftplus
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Parametrized


class Quantiles(Parametrized):
    """Quantiles of the target at given levels.

        nll(y) = mean over levels t of
                 pinball_t(y - q_t) / scale + log(scale) - log(t (1 - t))

    with `pinball_t(r) = max(t r, (t - 1) r)` and q_t the prediction for level
    t. Each term is the NLL of an asymmetric Laplace distribution. At its
    minimum a fraction t of the targets lies below q_t. The mean is a composite
    likelihood: only compare models with the same levels. `cdf` and `quantile`
    interpolate linearly between the sorted predictions, with Laplace tails.

    Args:
        levels: increasing, each in (0, 1).

    The resulting class takes

        prediction: the quantiles, `(batch, ..., levels)`, for targets
            `(batch, ..., 1)`. The NLL has the shape `(batch, ...)`.
        scale: `> 0`; its last axis is 1. Defaults to 1.
    """

    example = "[0.1,0.9]"
    levels: tuple[float, ...]

    @classmethod
    def define(cls, levels: Any) -> dict[str, Any]:
        given = np.atleast_1d(np.asarray(levels, "float64"))
        inside = np.all((given > 0) & (given < 1))
        increase = given.ndim == 1 and given.size and np.all(np.diff(given) > 0)
        allowed = "increasing numbers strictly between 0 and 1"
        check_argument("levels", levels, inside and increase, allowed)
        return {
            "levels": tuple(given.tolist()),
            "parameters": (Parameter("scale", ShiftedSoftplus(0.01)),),
            "event_rank": 1,
            "prediction_constraint": Increasing(),
        }

    def __init__(self, prediction: Tensor, **parameters: Any) -> None:
        super().__init__(prediction, **parameters)
        shape, count = tuple(self.prediction.shape), len(self.levels)
        allowed = f"of shape (..., levels), with length {count}, one per level"
        check_argument("prediction", shape, shape[-1] == count, allowed)

    def nll(self, y: Tensor) -> Tensor:
        error = y - self.prediction
        levels = ops.convert_to_tensor(self.levels, dtype=error.dtype)
        loss = ops.where(error < 0, levels - 1, levels) * error
        constant = -np.mean([math.log(t * (1 - t)) for t in self.levels])
        nll = loss / self.scale + ops.log(self.scale)
        # `ops.mean` on PyTorch casts float64 to float32.
        return ops.sum(nll, axis=-1) / len(self.levels) + float(constant)

    @classmethod
    def target_shapes(cls, shape: Shape) -> list[Shape]:
        return [(*shape[:-1], 1)]

    def outcomes_like(self) -> Tensor:
        return self.prediction[..., :1]

    def _knots(self) -> list[Tensor]:
        knots = ops.unstack(ops.sort(self.prediction, axis=-1), axis=-1)
        return [knot[..., None] for knot in knots]

    def cdf(self, y: Tensor) -> Tensor:
        knots = self._knots()
        first, last = self.levels[0], self.levels[-1]
        inside = first
        for t, next_t, q, next_q in self._pieces(knots):
            share = (y - q) / clip(next_q - q, 1e-30, math.inf)
            inside = inside + (next_t - t) * clip(share, 0.0, 1.0)
        left = ops.relu(knots[0] - y) * (1 - first) / self.scale
        right = ops.relu(y - knots[-1]) * last / self.scale
        above = 1 - (1 - last) * ops.exp(-right)
        found = ops.where(y > knots[-1], above, inside)
        return ops.where(y < knots[0], first * ops.exp(-left), found)

    def quantile(self, p: Tensor) -> Tensor:
        knots = self._knots()
        first, last = self.levels[0], self.levels[-1]
        found = knots[0]
        for t, next_t, q, next_q in self._pieces(knots):
            share = clip((p - t) / (next_t - t), 0.0, 1.0)
            found = found + (next_q - q) * share
        left = ops.log(clip(p, 0.0, first) / first)
        right = ops.log(clip(1 - p, 0.0, 1 - last) / (1 - last))
        found = found + self.scale / (1 - first) * left
        return found - self.scale / last * right

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        return self.quantile(self._uniform(count, seed)[..., None])

    def _pieces(self, knots: Tensor) -> Any:
        levels = self.levels
        return zip(levels, levels[1:], knots, knots[1:], strict=False)

    def _segments(self) -> Any:
        """Probability, mean and variance of each tail and each piece."""
        knots, first, last = self._knots(), self.levels[0], self.levels[-1]
        below, above = self.scale / (1 - first), self.scale / last
        yield first, knots[0] - below, ops.square(below)
        yield 1 - last, knots[-1] + above, ops.square(above)
        for t, next_t, q, next_q in self._pieces(knots):
            yield next_t - t, 0.5 * (q + next_q), ops.square(next_q - q) / 12

    def mean(self) -> Tensor:
        """Mean of the interpolated distribution, `(batch, ..., 1)`."""
        return sum(share * mean for share, mean, _ in self._segments())

    def variance(self) -> Tensor:
        """Variance of the interpolated distribution, `(batch, ..., 1)`."""
        centre = self.mean()
        return sum(
            share * (variance + ops.square(mean - centre))
            for share, mean, variance in self._segments()
        )

    def information(self) -> Tensor:
        """`t (1 - t) / (scale * number of levels)^2`, for each level t."""
        share = [t * (1 - t) for t in self.levels]
        share = ops.convert_to_tensor(share, dtype=self.prediction.dtype)
        each = share / ops.square(self.scale * len(self.levels))
        return ops.broadcast_to(each, ops.shape(self.prediction))
