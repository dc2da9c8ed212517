"""Least squares with one scale per example."""

import numpy as np

from keras_likelihood.robust.criteria import DataScale
from keras_likelihood.robust.linear import (
    RobustLinearRegressor,
    check_settings,
)


class DataScaleRegressor(RobustLinearRegressor):
    """Linear regression with a scale for each example (DPLS).

        y_i ~ Normal(x_i . b + a, scale_i),  scale_i >= floor

    Without a prior each scale becomes its residual, `scale_i = |r_i|`, and the
    likelihood becomes `-sum log |r_i|`. This is robust, because a large
    residual has the weight 1 / r. But it has no maximum: a plane through a few
    of the examples has an infinite likelihood. A floor keeps it finite. To
    learn the floor too, the scales have the prior `(floor / scale)^restraint`.
    The best scale is then

        scale_i = max(floor, |r_i| / sqrt(1 + restraint)),

    and the density of residuals is Normal in the middle with tails that fall
    as `|r|^-(1 + restraint)`. It integrates to one, so that floor and
    restraint are learned with the coefficients.

    Args:
        restraint: exponent of the prior, `> 0`. With `None` (default) it is
            learned between 0.5 and 30. Infinity is least squares.
        floor: smallest floor, in units of the spread of y. Defaults to 1e-4.
        random_state: seed of the random subsets from which the fit starts.
            Defaults to 0.

    Attributes:
        coef_: b, `(d,)`.
        intercept_: a.
        scale_: scales of the training examples, `(n,)`; large for outliers.
        scale_intercept_: the log of the floor.
        scale_coef_: zeros, `(d,)`: the floor is the same for all x.
        shape_: the restraint used.

    Example:

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> y = 2 * x[:, 0] + 1 + 0.1 * np.sin(40 * x[:, 0])
    >>> y[40:] = -5
    >>> DataScaleRegressor().fit(x, y).coef_.round(1)
    array([2.])
    """

    def __init__(
        self,
        *,
        restraint: float | None = None,
        floor: float = 1e-4,
        random_state=0,
    ):
        self.restraint = restraint
        self.floor = floor
        self.random_state = random_state

    def _settings(self):
        if self.restraint is not None:
            check_settings(self.restraint, self.floor)
            if self.restraint == 0:
                raise ValueError(
                    "`restraint` must be > 0 for the floor to be learned. "
                    f"Received: {self.restraint!r}"
                )
        check_settings(1.0, self.floor)
        shape = None if self.restraint is None else np.float64(self.restraint)
        return {
            "criterion": DataScale(),
            "shape": shape,
            "slopes": False,
            "restraint": 0.0,
        }
