"""One output of a batch with its targets, weights and mask."""

import dataclasses
from typing import Any

import keras
from keras import ops

from keras_likelihood.likelihoods.output import match_target, split_output


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """One output of a model for one batch, with its targets and weights.

    Weights have the shape `(batch,)` or further axes of the prediction, to
    which Keras may have attached a mask. Outcomes with the class
    `ignored_label` have weight 0.
    """

    output: Any
    target: Any
    sample_weight: Any = None
    ignored_label: int | None = None

    @property
    def prediction(self):
        return ops.convert_to_tensor(split_output(self.output)[0])

    def weights(self, event_rank: int):
        """Sample weights of the outcomes, 0 where masked or ignored.

        They have the shape `(batch, ...)` if several entries of the prediction
        form one outcome, otherwise `(batch, ..., 1 or units)`.
        """
        whole = self.weighs_units(event_rank)
        like = self.prediction if whole else self.prediction[..., 0]
        weights = self.reduce(ops.ones_like(like), "none")
        weights = weights if event_rank or whole else weights[..., None]
        if self.ignored_label is None:
            return weights
        return weights * ops.cast(self._keep(weights), weights.dtype)

    def counted_target(self, distribution, weights):
        """Targets with the rank of the prediction, all of them possible.

        An outcome of weight 0 may have any target, such as -1 or NaN. Its
        target is replaced by a possible one, because the gradient of a term
        with weight 0 could still be NaN.
        """
        y, counts = self._matched_target(distribution, weights)
        return ops.where(counts, y, _possible_target(distribution, y))

    def finite_target(self, distribution, weights):
        """As `counted_target`, but NaN and infinite targets are replaced too.

        Also returns a mask of the targets that were kept.
        """
        y, counts = self._matched_target(distribution, weights)
        if keras.backend.is_float_dtype(y.dtype):
            # Bounds may be infinite.
            has_bounds = distribution.takes_bounds
            known = ~ops.isnan(y) if has_bounds else ops.isfinite(y)
            if counts.shape[-1] == 1:
                # All units of an example share one weight.
                known = ops.all(known, axis=-1, keepdims=True)
            counts = ops.logical_and(counts, known)
        return ops.where(counts, y, _possible_target(distribution, y)), counts

    def _matched_target(self, distribution, weights):
        """Targets with the rank of the prediction, and where weights > 0."""
        y = _as_tensor(self.target, distribution.prediction.dtype)
        y = match_target(y, distribution.prediction)
        counts = weights > 0
        if len(counts.shape) < len(y.shape):
            counts = counts[..., None]
        return y, counts

    def reduce(self, values, reduction: str | None, dtype=None):
        """Weights, masks and reduces values like a Keras loss."""
        weight = self.sample_weight
        if weight is not None:
            weight = ops.convert_to_tensor(weight)
            while len(weight.shape) < len(values.shape):
                weight = weight[..., None]
            # On PyTorch Keras multiplies the weights by the mask in place.
            if len(weight.shape) == len(values.shape):
                weight = weight * ops.ones_like(values, dtype=weight.dtype)
            else:
                weight = ops.copy(weight)
        given = FunctionLoss(
            lambda values, prediction: values, reduction, dtype
        )
        return given(values, self.prediction, weight)

    def without_ignored(self, values, reduction: str | None):
        """Rescales a mean over all outcomes to a mean without the ignored."""
        means = ("sum_over_batch_size", "mean")
        if self.ignored_label is None or reduction not in means:
            return values
        event_rank = len(self.prediction.shape) - len(values.shape)
        valid = Batch(self.output, self.target).weights(event_rank)
        kept = valid * ops.cast(self._keep(valid), valid.dtype)
        valid, kept = (
            ops.sum(ops.broadcast_to(weights, ops.shape(values)))
            for weights in (valid, kept)
        )
        return values * ops.divide_no_nan(valid, kept)

    def _keep(self, weights):
        """Mask of the outcomes whose label is not the ignored one."""
        y = _as_tensor(self.target, weights.dtype)
        keep = ops.not_equal(y, ops.cast(self.ignored_label, y.dtype))
        # Labels may have one axis of length 1 more or less than outcomes.
        if len(y.shape) > len(weights.shape):
            return ops.any(keep, axis=-1)
        return keep[..., None] if len(y.shape) < len(weights.shape) else keep

    def weighs_units(self, event_rank: int) -> bool:
        """Whether each unit has its own weight."""
        if event_rank or self.sample_weight is None:
            return False
        shape = ops.convert_to_tensor(self.sample_weight).shape
        own = self.prediction.shape
        return len(shape) == len(own) and shape[-1] == own[-1]


def by_output(structure) -> dict:
    """The parts of a structure by output, under `""` for a single output."""
    if isinstance(structure, list | tuple):
        return dict(enumerate(structure))
    return structure if isinstance(structure, dict) else {"": structure}


def entry(structure, key):
    """The part of a structure that belongs to the output `key`."""
    if isinstance(structure, dict) and isinstance(key, str) and key:
        return structure.get(key)
    if isinstance(structure, list | tuple) and isinstance(key, int):
        return structure[key] if key < len(structure) else None
    return structure


class FunctionLoss(keras.losses.Loss):
    """A Keras loss from a function.

    Only Keras' own code can find the mask of a tensor.
    """

    def __init__(self, function, reduction="sum_over_batch_size", dtype=None):
        # TensorFlow does not allow brackets, as in "<lambda>", in names.
        name = getattr(function, "__name__", "loss").strip("<>_")
        super().__init__(name, reduction, dtype)
        self.call = function


def _as_tensor(y, dtype):
    """Targets as a tensor; floating-point targets are cast to `dtype`."""
    known = keras.backend.standardize_dtype(getattr(y, "dtype", dtype))
    is_float = keras.backend.is_float_dtype(known)
    return ops.convert_to_tensor(y, dtype=dtype if is_float else None)


def _possible_target(distribution, y):
    """Possible targets, without gradient, that broadcast with `y`."""
    shape = distribution.prediction.shape
    if hasattr(distribution, "class_probabilities"):
        return ops.zeros_like(y)
    if len(y.shape) > len(shape):
        # The last axis contains two bounds.
        return distribution.typical_outcome()[..., None]
    if len(y.shape) == len(shape) and y.shape[-1] == shape[-1]:
        return ops.cast(distribution.typical_outcome(), y.dtype)
    return ops.zeros_like(y)
