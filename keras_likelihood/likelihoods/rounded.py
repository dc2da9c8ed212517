"""Targets that were rounded to a grid."""

from typing import ClassVar

from keras import ops

from keras_likelihood.likelihoods.parametrized import Wrapper
from keras_likelihood.likelihoods.special import floor
from keras_likelihood.likelihoods.tails import log_probability


class Rounded(Wrapper):
    """Any likelihood, for targets rounded to a multiple of `step`.

        nll(y) = -log P(y - step / 2 < Y <= y + step / 2)

    If targets repeat, the scale may shrink to fit them exactly, and the NLL of
    a density falls without end. The NLL of a bin is never below 0.

    ```python
    loss = kl.losses.LikelihoodLoss(Rounded("normal", step=0.5))
    ```

    `quantile` and `sample` are on the grid, and `mean`, `variance` and
    `information` are those of the rounded target.

    Args:
        likelihood: a `Likelihood` of numbers that are not whole, or its
            name; it needs a `cdf`.
        step: distance of two grid points, `> 0`. Defaults to 1.
    """

    step: ClassVar[float]

    @classmethod
    def define(cls, likelihood, *, step=1.0):
        inner = cls.require_numbers(likelihood)
        if inner.is_discrete or not 0 < step < float("inf"):
            raise ValueError(
                "Rounded needs a likelihood of numbers that are not whole, "
                "and a finite step > 0. "
                f"Received: {inner.name()!r}, step={step}"
            )
        own = {"step": float(step), "allowed": f"multiples of {float(step)}"}
        return {**cls.attributes_of(inner), "is_discrete": True, **own}

    def _on_grid(self, y):
        return self.step * ops.round(y / self.step)

    def nll(self, y):
        y = self._on_grid(self._check_target(y))
        half = 0.5 * self.step
        return -log_probability(self.inner, y - half, y + half)

    @classmethod
    def is_possible(cls, y):
        steps = abs(y / cls.step)
        off = abs((steps + 0.5) % 1 - 0.5)
        return off < 1e-3 + 1e-6 * steps

    def cdf_below(self, y):
        y = self._on_grid(self._check_target(y))
        return self.inner.cdf(y - 0.5 * self.step)

    def log_tail(self, y, upper):
        y = self.step * floor(self._check_target(y) / self.step + 1e-4)
        return self.inner.log_tail(y + 0.5 * self.step, upper)

    def tail_quantile(self, log_p, upper):
        return self._on_grid(self.inner.tail_quantile(log_p, upper))

    def sample(self, count=None, seed=None):
        return self._on_grid(self.inner.sample(count, seed))

    def scale_exponent(self):
        return self.inner.scale_exponent()

    def typical_outcome(self):
        return self._on_grid(self.inner.typical_outcome())

    def edges(self):
        return self._on_grid(self.inner.edges())
