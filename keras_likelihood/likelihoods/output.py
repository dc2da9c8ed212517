"""Splits model outputs `(prediction, parameter, ...)` into distributions."""

from keras import ops

from keras_likelihood.likelihoods.likelihood import Likelihood


def split_output(output) -> tuple:
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
    output,
    *,
    known: dict | None = None,
    dtype=None,
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
    values = dict(zip(names, rest, strict=True))
    for parameter in likelihood.parameters:
        name = parameter.name
        if name in values:
            continue
        if name in known:
            values[name] = known[name]
        elif parameter.neutral:
            values[name] = parameter.initial
        else:
            raise ValueError(
                f"{likelihood.__name__} needs a value for `{name}`. Pass "
                f"(prediction, {name}), or {name}=... as a number. "
                "Received: only a prediction"
            )
    return likelihood(prediction, **values)


def names_in_output(likelihood, known, count: int) -> list[str]:
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


def match_target(y, prediction):
    """Adds the unit axis, which targets `(batch, ...)` may omit."""
    y = ops.convert_to_tensor(y)
    if len(y.shape) == len(prediction.shape) - 1 and prediction.shape[-1] == 1:
        return ops.expand_dims(y, axis=-1)
    return y
