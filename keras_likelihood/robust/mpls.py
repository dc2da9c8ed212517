"""Least squares with a predicted scale."""

import numpy as np

from keras_likelihood.robust.criteria import PredictedScale
from keras_likelihood.robust.linear import (
    RobustLinearRegressor,
    check_settings,
)


class PredictedScaleRegressor(RobustLinearRegressor):
    """Linear regression whose scale is predicted (MPLS-X, MPLS-XY).

        y_i ~ Normal(x_i . b + a, scale_i)
        inputs="xy":  scale_i = g([x_i, y_i] . w),  g(t) = hypot(floor, t)
        inputs="x":   scale_i = exp(x_i . v + c)

    With y among its inputs, the scale tells outliers from inliers: it is
    lowest on a plane and grows on both sides of it, which a scale monotone in
    y could not. The plane is that of the predictions, so `w` has one free
    number, the gain k, and

        scale_i = hypot(floor, k (y_i - x_i . b - a)).

    A scale that reads y could explain any residual. What holds it back is
    the prior `(floor / scale)^(1/4)` and the normaliser of the density,
    which is a proper one: k = 0 is least squares, and with k > 0 the tails
    fall as r^(-5/4), so that outliers that keep together hardly pull. a, b,
    k <= 0.6 and the floor are learned together.

    With x alone, the scale tells regions of much noise from those of little.

    Args:
        inputs: `"xy"` (default) or `"x"`.
        restraint: strength of the prior `restraint * k^2`, respectively
            `restraint * |v|^2` for standardised x, `>= 0`, counted once
            against the sum over examples. Infinity is least squares.
            Defaults to 1.
        floor: least floor, in units of the spread of y. Defaults to 1e-4.
        random_state: seed of the subsets that starts are taken from.
            Defaults to 0.

    Attributes:
        coef_: b, `(d,)`.
        intercept_: a.
        scale_: scales of the training examples, `(n,)`; large for outliers.
        scale_coef_: v, `(d,)`; zeros for `inputs="xy"`.
        scale_intercept_: c, the log of the floor.
        shape_: k; 0 for `inputs="x"`.

    Example:

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> y = 2 * x[:, 0] + 1 + 0.1 * np.sin(40 * x[:, 0])
    >>> y[40:] = -5
    >>> model = PredictedScaleRegressor().fit(x, y)
    >>> model.coef_.round(1), int(model.scale_.argsort()[-10:].min())
    (array([2.]), 40)
    """

    def __init__(
        self,
        inputs: str = "xy",
        *,
        restraint: float = 1.0,
        floor: float = 1e-4,
        random_state=0,
    ):
        self.inputs = inputs
        self.restraint = restraint
        self.floor = floor
        self.random_state = random_state

    def _settings(self):
        if self.inputs not in ("x", "xy"):
            raise ValueError(
                f"`inputs` must be 'x' or 'xy'. Received: {self.inputs!r}"
            )
        check_settings(self.restraint, self.floor)
        rigid = np.isinf(self.restraint)
        from_y = self.inputs == "xy"
        return {
            "criterion": PredictedScale(),
            "shape": None if from_y and not rigid else 0.0,
            "slopes": not from_y and not rigid,
            "restraint": 0.0 if rigid else self.restraint,
        }
