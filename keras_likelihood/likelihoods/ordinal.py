"""The ordinal likelihood: classes in an order."""

import math

from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods.checks import check_size
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Parametrized
from keras_likelihood.likelihoods.special import floor


class Ordinal(Parametrized):
    """Classes 0, 1, ... in an order, such as grades or numbers of stars.

        P(y <= k) = 1 / (1 + exp(prediction - cut_k))

    The prediction is a score on a hidden scale, which increasing cut points
    divide into classes (proportional odds, McCullagh 1980). The parameter
    `gaps` holds the distances between the cut points. Their middle is 0,
    because the bias of the score already shifts them.

    ```python
    Ordinal(classes=5)
    ```

    Args:
        classes: number of classes, from 3 to 1000. For two use `Bernoulli`.

    A call on the class that this makes takes

        prediction: scores, `(batch, ..., units)`; targets are class numbers
            of the same shape.
        gaps: distances of the cut points, `> 0`, `classes - 2` of them for
            all units or for each. Defaults to 1.
    """

    example = "4"
    classes: int
    is_discrete = True

    @classmethod
    def define(cls, classes):
        classes = int(classes) if classes == int(classes) else classes
        check_size("classes", classes, 3, note="For two use Bernoulli. ")
        gaps = Parameter("gaps", ShiftedSoftplus(0.01), size=classes - 2)
        allowed = f"whole numbers from 0 to {classes - 1}"
        return {"classes": classes, "parameters": (gaps,), "allowed": allowed}

    def _gaps(self):
        """Distances of the cut points, `(batch, ..., 1 or units, gaps)`."""
        count = self.classes - 2
        shape = ops.shape(self.gaps)[:-1]
        units = self.gaps.shape[-1] // count
        return ops.reshape(self.gaps, (*shape, units, count))

    def cut_points(self):
        """Increasing cut points, `(batch, ..., 1 or units, classes - 1)`."""
        gaps = ops.unstack(self._gaps(), axis=-1)
        cuts = [ops.zeros_like(gaps[0])]
        for gap in gaps:
            cuts.append(cuts[-1] + gap)
        return ops.stack([cut - 0.5 * cuts[-1] for cut in cuts], axis=-1)

    def _logits(self):
        """Log-odds of `y <= k` for all but the last class."""
        return self.cut_points() - ops.expand_dims(self.prediction, axis=-1)

    def _nll_of_classes(self):
        """`(batch, ..., units, classes)`."""
        logits, gaps = self._logits(), self._gaps()
        none = ops.zeros_like(logits[..., :1])
        # P = sigmoid(a) sigmoid(-b) (1 - exp(b - a)) between two cut points.
        width = -ops.log(-ops.expm1(-clip(gaps, 1e-30, math.inf)))
        width = width + ops.zeros_like(logits[..., 1:])
        parts = [
            [ops.softplus(-logits), none],
            [none, ops.softplus(logits)],
            [none, width, none],
        ]
        return sum(ops.concatenate(part, axis=-1) for part in parts)

    def _pick(self, values, classes):
        """The entries of the last axis of `values` at these class numbers."""
        numbers = ops.arange(self.classes, dtype=values.dtype)
        chosen = ops.expand_dims(classes, axis=-1) == numbers
        return ops.sum(ops.where(chosen, values, 0.0), axis=-1)

    def nll(self, y):
        """Negative log-likelihood of class numbers, and NaN for others."""
        y = self._check_target(y)
        nll = self._pick(self._nll_of_classes(), y)
        return self._or_nan(nll, self.is_possible(y))

    @classmethod
    def is_possible(cls, y):
        return (y >= 0) & (y < cls.classes) & (y % 1 == 0)

    def class_probabilities(self):
        """Probabilities, `(batch, ..., units, classes)`."""
        return ops.exp(-self._nll_of_classes())

    def _cumulative(self):
        up_to = ops.sigmoid(self._logits())
        return ops.concatenate([up_to, ops.ones_like(up_to[..., :1])], axis=-1)

    def cdf(self, y):
        y = floor(self._check_target(y))
        at = self._pick(self._cumulative(), clip(y, 0.0, self.classes - 1.0))
        return ops.where(y < 0, ops.zeros_like(at), at)

    def quantile(self, p):
        """The smallest class k with `P(y <= k) >= p`."""
        below = self._cumulative() < (p if not p.shape else p[..., None])
        below = ops.cast(below[..., :-1], self.prediction.dtype)
        return ops.sum(below, axis=-1)

    def mean(self):
        """Expected class number."""
        return ops.sum(ops.sigmoid(-self._logits()), axis=-1)

    def variance(self):
        numbers = ops.arange(self.classes, dtype=self.prediction.dtype)
        apart = numbers - ops.expand_dims(self.mean(), axis=-1)
        square = self.class_probabilities() * ops.square(apart)
        return ops.sum(square, axis=-1)

    def information(self):
        above = ops.sigmoid(-self._logits())
        none = ops.zeros_like(above[..., :1])
        # d nll / d score of each class.
        slopes = ops.concatenate([above, none], axis=-1)
        slopes = slopes - ops.concatenate([none, 1 - above], axis=-1)
        weighted = self.class_probabilities() * ops.square(slopes)
        return ops.sum(weighted, axis=-1)
