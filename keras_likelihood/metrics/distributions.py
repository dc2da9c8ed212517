"""From a model's output to the distribution it stands for."""

from keras import ops


def as_distribution(likelihood, y_true, y_pred, parameters, dtype):
    """Returns the likelihood object and the target in its rank.

    Args:
        likelihood: a `Likelihood` class.
        y_true: targets; may lack the last axis of one unit.
        y_pred: a prediction, or `(prediction, parameter, ...)` in the
            likelihood's order.
        parameters: values by name of parameters not in `y_pred`.
        dtype: to compute in.
    """
    leaves = list(y_pred) if isinstance(y_pred, list | tuple) else [y_pred]
    prediction, *rest = (ops.cast(leaf, dtype) for leaf in leaves)
    free = [p.name for p in likelihood.parameters if p.name not in parameters]
    if len(rest) > len(free):
        raise ValueError(
            f"{likelihood.__name__} takes a prediction and {free}. "
            f"Received: a prediction and {len(rest)} parameters"
        )
    given = dict(zip(free, rest, strict=False))
    y_true = ops.convert_to_tensor(y_true)
    if not likelihood.event_rank:
        y_true = ops.cast(y_true, dtype)
        missing_axis = len(y_true.shape) == len(prediction.shape) - 1
        if missing_axis and prediction.shape[-1] == 1:
            y_true = y_true[..., None]
    return likelihood(prediction, **given, **parameters), y_true
