"""Splits model outputs `(prediction, parameter, ...)` into distributions."""

from typing import Any

import numpy as np
from keras import ops

from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.likelihoods.checks import fits
from keras_likelihood.likelihoods.likelihood import Likelihood


def split_output(output: Any) -> tuple[Any, list[Any]]:
    """Splits one output into its prediction and a list of its parameters."""
    if not isinstance(output, list | tuple):
        return output, []
    if not output:
        raise ValueError(
            "An output must be a prediction, or (prediction, parameter, ...). "
            f"Received: {output!r}"
        )
    return output[0], list(output[1:])


def distribution_of(
    likelihood: type[Likelihood],
    output: Any,
    *,
    known: dict[str, Any] | None = None,
    dtype: Any = None,
) -> Likelihood:
    """The distribution described by the output of a model.

    The output is a prediction, or `(prediction, parameter, ...)` with the
    parameters that are not in `known`, in the likelihood's order. If it is only
    a prediction, the parameters must be in `known` or have a neutral value.
    """
    known = known or {}
    prediction, rest = split_output(output)
    prediction = ops.convert_to_tensor(prediction)
    if dtype is not None:
        prediction = ops.cast(prediction, dtype)
    names = names_in_output(likelihood, known, len(rest))
    values = {**known, **dict(zip(names, rest, strict=True))}
    for p in likelihood.parameters:
        if p.name not in values and not p.neutral:
            raise ValueError(
                f"{likelihood.__name__} needs a value for `{p.name}`. Pass "
                f"(prediction, {p.name}), or {p.name}=... as a number. "
                "Received: only a prediction"
            )
    return likelihood(prediction, **values)


def names_in_output(likelihood: Any, known: Any, count: int) -> list[str]:
    """Names of the `count` parameters in an output, which excludes `known`."""
    free = [p.name for p in likelihood.parameters if p.name not in known]
    if count in (0, len(free)):
        return free[:count]
    raise ValueError(
        f"The output for {likelihood.__name__} must be only a prediction, or a "
        f"prediction with the {len(free)} parameter(s) {free}. Pass the others "
        "to the loss, as numbers or as 'global'. "
        f"Received: a prediction and {count} parameter(s)"
    )


def align_weight(likelihood: Any, w: Tensor, shape: Shape) -> Tensor:
    """Sample weights with one axis for each axis of the outcomes.

    Axes of length 1 at the end may be omitted. `(batch,)` and `(batch, 1)` are
    one weight per example, `(batch, units)` one per unit.
    """
    module: Any = np if isinstance(w, np.ndarray) else ops
    received = tuple(w.shape)
    outcomes = tuple(shape[:-1] if likelihood.event_rank else shape)
    while len(w.shape) > len(outcomes) and w.shape[-1] == 1:
        w = module.squeeze(w, -1)
    while len(w.shape) < len(outcomes):
        w = module.expand_dims(w, -1)
    pairs = zip(w.shape, outcomes, strict=False)
    own = tuple(1 if one == 1 else size for one, size in pairs)
    if not fits(tuple(w.shape), own):
        raise ValueError(
            "`sample_weight` must have the shape (batch,), or further axes of "
            f"the outcomes, which have the shape {outcomes}. "
            f"Received: {received}"
        )
    return w
