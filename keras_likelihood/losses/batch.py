"""One output of a batch in the form that losses, metrics and rows use."""

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.private import mask_of
from keras_likelihood.backend.processes import gather_replicas, replica_count
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.checks import aligned, as_weight
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.output import align_weight, split_output


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """One output of a model for one batch, with its targets and weights.

    An outcome is a number, a class or a vector. Outcomes have the shape of the
    prediction, without its last axis if several entries form one outcome.
    """

    prediction: Tensor
    parameters: list[Tensor]
    target: Tensor | None
    """Targets in one of the `target_shapes` of the likelihood."""
    weight: Tensor
    """Weight of each outcome, 0 where it is masked or ignored."""
    mask: Tensor
    """1 where an outcome exists, 0 where it is masked or ignored."""
    possible: Tensor
    """Whether each target is possible under the likelihood."""
    index: Tensor | None
    """Row numbers of the examples, for data parameters."""
    is_plain: bool
    """Whether all weights are 1."""

    @classmethod
    def of(
        cls,
        likelihood: Any,
        y_true: Any,
        y_pred: Any,
        sample_weight: Any = None,
        *,
        index: Any = None,
        missing: float | str | None = None,
        dtype: Any = None,
    ) -> "Batch":
        """Brings one output, its targets and its weights into one form.

        The targets may be `None`. `missing` marks unknown ones, and `dtype` is
        that of floating-point targets.
        """
        prediction, parameters = split_output(y_pred)
        prediction = ops.convert_to_tensor(prediction)
        if len(prediction.shape) == 1:
            prediction, *parameters = (
                ops.expand_dims(v, -1) for v in (prediction, *parameters)
            )
        shape, event_rank = prediction.shape, likelihood.event_rank
        like = prediction[..., 0] if event_rank else prediction[..., :1]
        mask = ones = ops.ones_like(like, dtype=keras.config.floatx())
        if (of_keras := mask_of(prediction)) is not None:
            of_keras = ops.cast(of_keras, ones.dtype)
            mask = ones * align_weight(likelihood, of_keras, shape)
        target = possible = None
        if y_true is not None:
            dtype = dtype or prediction.dtype
            own = getattr(y_true, "dtype", dtype)
            own = keras.backend.standardize_dtype(own)
            # Class numbers stay integers.
            is_class = event_rank and keras.backend.is_int_dtype(own)
            target = ops.convert_to_tensor(y_true, None if is_class else dtype)
            shapes = likelihood.target_shapes(tuple(shape))
            what = f"Targets of {likelihood.__name__}"
            target = aligned(target, shapes, what)
            possible = _per_outcome(likelihood.is_possible(target, shape), mask)
            if missing is not None:
                is_known = _per_outcome(~is_missing(target, missing), mask)
                mask = mask * ops.cast(is_known, mask.dtype)
        weight = mask
        if sample_weight is not None:
            own = ops.convert_to_tensor(sample_weight, dtype=mask.dtype)
            weight = mask * align_weight(likelihood, own, shape)
        if possible is not None and not event_rank and weight.shape[-1] == 1:
            # All units of an example share one weight.
            possible = ops.all(possible, axis=-1, keepdims=True)
        if index is not None and len(index.shape) > 1:
            index = ops.squeeze(index, axis=-1)
        plain = mask is ones and sample_weight is None
        parts = (target, weight, mask, possible, index, plain)
        return cls(prediction, parameters, *parts)

    @property
    def output(self) -> Any:
        """`(prediction, parameter, ...)`."""
        return (self.prediction, *self.parameters)

    def unweighted(self) -> "Batch":
        """The batch for a metric without sample weights.

        Masks still apply. As in Keras, outcomes of weight 0 are counted, except
        for impossible targets such as NaN.
        """
        if self.is_plain:
            return self
        present = ops.cast(self.possible, self.mask.dtype)
        weight = ops.where(self.weight > 0, self.mask, self.mask * present)
        return dataclasses.replace(self, weight=weight)

    def target_where(
        self, distribution: Likelihood, counts: Tensor = None
    ) -> Tensor:
        """Targets where `counts` is true, elsewhere some possible targets.

        By default the targets of weight > 0 count. The gradient of a term with
        weight 0 could still be NaN.
        """
        y: Any = self.target
        if counts is None:
            if self.is_plain:
                return y
            counts = self.weight > 0
        while len(counts.shape) < len(y.shape):
            counts = counts[..., None]
        if hasattr(distribution, "class_probabilities"):
            return ops.where(counts, y, ops.zeros_like(y))
        typical = ops.cast(distribution.typical_outcome(), y.dtype)
        if len(y.shape) > len(self.prediction.shape):
            # Two bounds have a further axis.
            typical = typical[..., None]
        return ops.where(counts, y, typical)

    def count(self) -> Tensor:
        """Number of examples, each by the share of its known outcomes."""
        rows = ops.shape(self.prediction)[0]
        return ops.mean(self.mask) * ops.cast(rows, self.mask.dtype)

    def reduce(self, values: Tensor, reduction: str | None) -> Tensor:
        """Weights the losses of the outcomes and reduces them as Keras does.

        Means are over the outcomes that are neither masked nor ignored.
        """
        by_weight = reduction == "mean_with_sample_weight"
        counted = self.weight if by_weight else self.mask
        counted = ops.cast(counted, values.dtype) * ops.ones_like(values)
        values = values * ops.cast(self.weight, values.dtype)
        if len(values.shape) == len(self.prediction.shape):
            # Mean over units
            values, counted = ops.mean(values, -1), ops.mean(counted, -1)
        if reduction in (None, "none"):
            return values
        total, count = ops.sum(values), ops.sum(counted)
        if reduction == "sum":
            return total
        # The losses of all replicas are summed.
        replicas = replica_count()
        if replicas > 1 and not self.is_plain:
            count = ops.sum(gather_replicas(count[None]))
        else:
            count = count * replicas
        return ops.divide_no_nan(total, count)


def is_missing(y: Any, missing: float | str) -> Any:
    """Whether each entry of the targets is marked as unknown."""
    # Only NaN differs from itself.
    return y != y if missing == "nan" else y == missing


def without_missing(y: Any, weight: Any, missing: Any) -> tuple[Any, Any]:
    """Arrays of targets and weights in which unknown targets have weight 0."""
    if missing is None:
        return y, weight
    known = ~is_missing(y, missing)
    weight = as_weight(weight, y.shape).reshape(y.shape) * known
    return np.where(known, y, y[known][0] if known.any() else 0), weight


def _per_outcome(flags: Tensor, like: Tensor) -> Tensor:
    """Whether the flags of all entries of an outcome are true."""
    while len(flags.shape) > len(like.shape):
        flags = ops.all(flags, axis=-1)
    return flags
