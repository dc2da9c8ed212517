"""Least squares with a scale per example, free or predicted."""

import numpy as np

from keras_likelihood.robust import gated
from keras_likelihood.robust.linear import (
    RobustLinearRegressor,
    check_settings,
)
from keras_likelihood.robust.problem import DataScale, Solution


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


_NO_OUTLIERS = 1e12
"""A restraint of `DataScale` so large that the result is a Normal."""


class PredictedScaleRegressor(RobustLinearRegressor):
    """Linear regression whose scale is predicted (MPLS-X, MPLS-XY).

        y_i ~ Normal(x_i . b + a, scale_i)
        inputs="xy":  scale_i = floor / sqrt(P(inlier | x_i, y_i))
        inputs="x":   scale_i = exp(x_i . v + c)

    If y is an input, the scale separates outliers from inliers. It comes from
    a mixture in which most targets lie near the plane and the others may lie
    anywhere,

        y ~ (1 - e(x)) Normal(x . b + a, floor) + e(x) Cauchy(middle, width)

    where the share of outliers e(x) is a logistic function of the distance of
    x from the middle of the inputs. An example has the weight 1 / scale_i^2
    in least squares, so outliers have almost no weight. Everything is learned
    together, by maximum likelihood (EM). If the likelihood without outliers is
    better by BIC, the result is least squares.

    In robust statistics this is called a redescending M-estimator with
    leverage. The fit starts from planes through small subsets, which
    concentration steps improve (FAST-LTS; Rousseeuw and Van Driessen, 2006).
    Mixtures for outliers are from Aitkin and Wilson (1980) and MLESAC (Torr
    and Zisserman, 2000). The affine scale of the paper is
    `AffineScaleRegressor`.

    With x alone, the scale is large where the noise is large.

    Args:
        inputs: `"xy"` (default) or `"x"`.
        restraint: `>= 0`. For `"xy"`, the cost of the outlier parameters, in
            units of BIC's cost. For `"x"`, the strength of the prior
            `restraint * |v|^2` for standardised x, which counts once beside
            the sum over examples. Infinity is least squares. Defaults to 1.
        floor: smallest floor, in units of the spread of y. Defaults to 1e-4.
        random_state: seed of the random subsets from which the fit starts.
            Defaults to 0.

    Attributes:
        coef_: b, `(d,)`.
        intercept_: a.
        scale_: scales of the training examples, `(n,)`; large for outliers,
            at most their residuals or the floor.
        scale_coef_: v, `(d,)`; zeros for `inputs="xy"`.
        scale_intercept_: c, the log of the floor: the noise of the inliers.
        shape_: the share of outliers; 0 for `inputs="x"`.

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
        return {
            "criterion": DataScale(),
            "shape": np.inf if rigid else _NO_OUTLIERS,
            "slopes": not rigid,
            "restraint": 0.0 if rigid else self.restraint,
        }

    def _solve(self, inputs, y, weight, settings, rng):
        if self.inputs == "x":
            solution = super()._solve(inputs, y, weight, settings, rng)
            solution.shape = 0.0
            return solution
        self._mixture, self._distances = gated.solve(
            inputs,
            y,
            weight,
            lowest=self.floor**2,
            restraint=self.restraint,
            rng=rng,
        )
        return Solution(
            self._mixture.coefficients[0],
            np.zeros(inputs.shape[1] - 1),
            np.log(self._mixture.variance[0, 0]) / 2,
            1 - self._mixture.inliers[0],
            self._mixture.cost[0],
        )

    def _scales(self, x, y):
        floors = self._floors(x)
        if self.inputs == "x":
            return floors
        center, spread, y_center, y_spread = self._units
        residual = np.abs(y - x @ self.coef_ - self.intercept_)
        odds = self._mixture.log_odds(
            (residual / y_spread) ** 2,
            self._distances((x - center) / spread),
            (y - y_center) / y_spread,
        )[0]
        # The scale of one example alone would be its residual.
        return np.clip(residual, floors, floors * _root_of_odds(odds))


def _root_of_odds(log_odds):
    """`sqrt(1 + exp(log_odds))`, finite."""
    return np.exp(np.minimum(np.logaddexp(0, log_odds), 1400) / 2)
