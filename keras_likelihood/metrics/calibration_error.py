"""CAL of regressors as a streaming Keras metric."""

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.metrics.distributions import as_distribution
from keras_likelihood.registration import serializable


@serializable
class CalibrationError(keras.metrics.Metric):
    """Do a regressor's intervals hold what they promise?

        CAL = sum_j (p_j - share of targets with F(y) <= p_j)^2

    over the levels p_j = j / levels, j = 1 .. levels - 1. F is the cdf of
    the likelihood, so any likelihood that has one will do.

    ```python
    cal = kl.metrics.CalibrationError("normal")
    cal.update_state(y, (prediction, scale))
    ```

    Args:
        likelihood: a `Likelihood` or its name. Defaults to `"normal"`.
        levels: number of equal steps of p. Defaults to 20.
        name, dtype: as in `keras.metrics.Metric`.
        **parameters: fixed values of parameters that the output lacks.
    """

    def __init__(
        self,
        likelihood="normal",
        *,
        levels: int = 20,
        name: str = "calibration_error",
        dtype=None,
        **parameters,
    ):
        super().__init__(name=name, dtype=dtype)
        self.likelihood = likelihoods.get(likelihood)
        for given in parameters:
            self.likelihood.parameter(given)
        if levels < 2:
            raise ValueError(f"`levels` must be >= 2. Received: {levels}")
        self.levels = levels
        self.parameters = parameters
        self.below = self.add_variable(
            shape=(levels - 1,), initializer="zeros", name="below"
        )
        self.count = self.add_variable(
            shape=(), initializer="zeros", name="count"
        )

    def update_state(self, y_true, y_pred, sample_weight=None):
        distribution, y_true = as_distribution(
            self.likelihood, y_true, y_pred, self.parameters, self.dtype
        )
        cdf = distribution.cdf(y_true)
        weight = ops.ones_like(cdf)
        if sample_weight is not None:
            given = ops.cast(sample_weight, self.dtype)
            while len(given.shape) < len(cdf.shape):
                given = given[..., None]
            weight = weight * given
        cdf, weight = ops.reshape(cdf, (-1, 1)), ops.reshape(weight, (-1, 1))
        inside = ops.cast(cdf <= self._levels(), self.dtype)
        self.below.assign_add(ops.sum(weight * inside, axis=0))
        self.count.assign_add(ops.sum(weight))

    def _levels(self):
        steps = ops.arange(1, self.levels, dtype=self.dtype)
        return steps / self.levels

    def result(self):
        share = ops.divide_no_nan(self.below, self.count)
        gap = ops.sum(ops.square(self._levels() - share))
        return ops.where(self.count > 0, gap, ops.zeros_like(gap))

    def get_config(self):
        return {
            **super().get_config(),
            "likelihood": self.likelihood.name(),
            "levels": self.levels,
            **self.parameters,
        }
