"""Targets of which some are known by bounds only."""

import numpy as np


def censored(
    y=None, *, event=None, below=None, above=None, lower=None, upper=None
) -> np.ndarray:
    """Targets for a `Censored` likelihood: pairs of bounds.

    ```python
    kl.censored(time, event=event)        # survival: event 0 means "later"
    kl.censored(y, below=0.1)             # a detection limit
    kl.censored(y, below=0.0, above=1.0)  # an instrument of that range
    kl.censored(lower=a, upper=b)         # somewhere between
    ```

    Args:
        y: values, `(examples, ...)`.
        event: array of the shape of `y`. It is 1 or True if `y` is the outcome
            itself. It is 0 or False if nothing happened up to the time `y`.
        below: a lower limit. A value at or below the limit only says that the
            outcome is at most the limit. A number, or an array that broadcasts
            with `y`.
        above: an upper limit. A value at or above the limit only says that the
            outcome is at least the limit.
        lower, upper: bounds of every outcome, in place of `y`. Equal bounds
            mean an exact outcome. `-inf` and `inf` mean no bound.

    Returns:
        Float32 array of the shape of `y` and a last axis of 2, which holds
        the lower and the upper bound.

    >>> censored([3.0, 5.0], event=[1, 0])
    [[3., 3.], [5., inf]]
    """
    if (y is None) == (lower is None or upper is None):
        raise ValueError(
            "`censored` needs `y`, or both `lower` and `upper`. Received: "
            f"y={_shape(y)}, lower={_shape(lower)}, upper={_shape(upper)}"
        )
    limited = below is not None or above is not None
    if (y is None or limited) and (event is not None or y is None and limited):
        raise ValueError(
            "Use either `event`, or `below` and `above`, and only with `y`. "
            f"Received: event={_shape(event)}, below={_shape(below)}, "
            f"above={_shape(above)}"
        )
    if y is None:
        low, high = np.broadcast_arrays(_numbers(lower), _numbers(upper))
    elif event is not None:
        low, event = _numbers(y), np.asarray(event)
        if event.shape != low.shape or not np.isin(event, (0, 1)).all():
            raise ValueError(
                "`event` must hold 0 or 1 and have the shape of `y`, "
                f"{low.shape}. Received: shape {event.shape}, values "
                f"{np.unique(event)[:5].tolist()}"
            )
        high = np.where(event.astype(bool), low, np.inf)
    else:
        y = low = high = _numbers(y)
        if below is not None:
            limit = np.broadcast_to(_numbers(below), y.shape)
            low = np.where(y <= limit, -np.inf, low)
            high = np.where(y <= limit, limit, high)
        if above is not None:
            limit = np.broadcast_to(_numbers(above), y.shape)
            low = np.where(y >= limit, limit, low)
            high = np.where(y >= limit, np.inf, high)
    bad = ~np.where(low == high, np.isfinite(low), low < high)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            "Bounds must have lower < upper, or be equal and finite. "
            f"Received: ({low[first]}, {high[first]}) at {first}"
        )
    return np.stack([low, high], axis=-1).astype("float32")


def _shape(values):
    return None if values is None else f"an array {np.shape(values)}"


def _numbers(values):
    values = np.asarray(values)
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"Bounds must be numbers. Received: dtype {values.dtype}"
        )
    return values.astype("float64")
