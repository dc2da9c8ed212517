"""Checks of the shapes of parameter values."""

from keras import ops


def as_vector(parameter, value, prediction_shape):
    """Gives a number or a vector the rank of the prediction.

    Only a parameter that is a vector is changed.

    Args:
        parameter: a `Parameter`.
        value: tensor.
        prediction_shape: the shape of the prediction, batch axis included.
    """
    if parameter.size is None or len(value.shape) > 1:
        return value
    size = parameter.size_for(prediction_shape[-1])
    if len(value.shape) == 1 and value.shape[0] != size:
        raise ValueError(
            f"`{parameter.name}` must have {size} values. "
            f"Received: shape {tuple(value.shape)}"
        )
    ones = (1,) * (len(prediction_shape) - 1)
    return ops.broadcast_to(value, (*ones, size))


def check_broadcasts(parameter, value, prediction_shape, event_rank):
    """Raises an error if a value would enlarge the prediction."""
    outcome = prediction_shape
    if event_rank:
        outcome = outcome[:-1] + (1,)
    shape, one = tuple(value.shape), 1
    if parameter.size is not None:
        one = parameter.size_for(prediction_shape[-1])
        outcome = outcome[:-1] + (outcome[-1] * one,)
    fits = len(shape) == 0 or (
        len(shape) == len(outcome)
        and all(
            s in (1, o) or s is None or o is None
            for s, o in zip(shape[:-1], outcome[:-1], strict=True)
        )
        and (shape[-1] in (one, outcome[-1], None) or outcome[-1] is None)
    )
    if not fits:
        last = f", the last {one} or" if one != 1 else " or"
        raise ValueError(
            f"`{parameter.name}` must be a scalar or have the rank of the "
            f"prediction with each axis 1{last} equal to that of "
            f"{outcome}. Received: shape {shape}"
        )
