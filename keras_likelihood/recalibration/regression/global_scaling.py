"""One factor on all scales."""

import numpy as np

from keras_likelihood.recalibration.regression.regressor import (
    RegressorRecalibrator,
)


class GlobalScaling(RegressorRecalibrator):
    """Multiplies a regressor's scale by one factor.

        scale = s * base,    s^2 = mean((y - prediction)^2 / base^2)

    This is the exact solution for normal residuals.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.

    >>> fitted = GlobalScaling().fit_arrays(prediction, y)
    >>> lower, upper = fitted.calibrate(test_prediction).interval(0.9)
    """

    def _fit_scale(self, z, x, weight):
        scale = float(np.sqrt(np.average(z**2, weights=weight)))
        self.parameters_ = {"relative_scale": max(scale, 1e-12)}
        return self._relative(x)

    def _relative(self, x):
        return self.parameters_["relative_scale"]
