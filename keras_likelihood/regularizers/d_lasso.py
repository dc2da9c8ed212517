"""L1 regularization of learned strength."""

import math

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods.laplace import Laplace
from keras_likelihood.regularizers.adaptive_regularizer import (
    AdaptiveRegularizer,
)
from keras_likelihood.regularizers.evidence import (
    RESOLUTION,
    Evidence,
    as_tensors,
    best_threshold,
    sparse_evidence,
    universal_threshold,
)
from keras_likelihood.regularizers.measured_evidence import (
    measured_sparse_evidence,
)


@serializable
class DLasso(AdaptiveRegularizer):
    """L1 with a learned strength: a Laplace prior with a learned scale `b`.

        penalty = sum_j (|w_j| / b + log(2 b)) / num_examples

    The likelihood alone would set `b` to the mean of `|w|`. This regularizes
    too little if most weights are zero and a few are large. Here `b` minimises
    Stein's estimate of the squared error of the weights. It depends on the
    share of the weights that are on (see `evidence.best_threshold`). `b` is
    never above the mean size of these weights, and never below the scale at
    which pure noise is switched off entirely.

    ```python
    keras.layers.Dense(
        1, kernel_regularizer=kl.regularizers.DLasso(num_examples=500)
    )
    ```

    Args:
        num_examples: number of likelihood terms that the loss averages over.
        group: `"tensor"` (default) for one scale, `"input"` or `"output"`
            for one per input feature or output unit.
        **options: those of `AdaptiveRegularizer`.
    """

    def __init__(self, *, num_examples: float, group="tensor", **options):
        super().__init__(num_examples=num_examples, group=group, **options)

    def prior_nll(self, weight, scale):
        return Laplace(ops.zeros_like(weight), scale=scale).nll(weight)

    def evidence(self, weight, scale, noise):
        found = sparse_evidence(
            weight, noise, self.num_examples, self._gain(weight)
        )
        return self._with_unseen(found, scale)

    def measured_evidence(self, weight, scale, noise, curvature):
        found = measured_sparse_evidence(weight, curvature, noise)
        found = self._with_unseen(*as_tensors((found, scale)))
        return Evidence(*map(ops.convert_to_numpy, found))

    def _with_unseen(self, found, scale):
        # Weights on but too small to be seen: their density at zero is that
        # of the Laplace prior.
        root = ops.mean(ops.sqrt(found.precision))
        unseen = RESOLUTION / (root * ops.max(scale))
        freedom = found.freedom * (1.0 + ops.minimum(unseen, 0.5))
        freedom = ops.minimum(freedom, self.num_examples - 1.0)
        free = (self.num_examples - freedom) / (
            self.num_examples - found.freedom
        )
        return Evidence(found.precision * free, freedom, found.on)

    def target_scale(self, weight, scale, evidence):
        axes = [i for i, n in enumerate(scale.shape) if n == 1]
        total = float(math.prod(weight.shape))
        members = total / math.prod(scale.shape)
        seen = ops.sum(evidence.on, axis=axes, keepdims=True)
        overall = evidence.freedom / total
        ratio = evidence.freedom / ops.maximum(ops.sum(evidence.on), 1.0)
        # A small group leans on the whole tensor as one more weight would.
        share = (seen * ops.maximum(ratio, 1.0) + overall) / (members + 1.0)
        share = ops.clip(share, 0.5 / total, 1.0 - 0.5 / total)
        highest = universal_threshold(int(total))
        threshold = ops.minimum(best_threshold(share), highest)
        root = ops.mean(ops.sqrt(evidence.precision))
        size = ops.sum(evidence.on * ops.abs(weight), axis=axes, keepdims=True)
        size = size / ops.maximum(seen, 1.0)
        return ops.maximum(
            ops.minimum(1.0 / (threshold * root), size),
            1.0 / (highest * root),
        )

    def _is_on(self, weight, scale, precision):
        on = ops.abs(weight) > RESOLUTION / math.sqrt(precision)
        return ops.cast(on, "int32")

    def _strength_of(self, scale):
        return 1.0 / (self.num_examples * scale)
