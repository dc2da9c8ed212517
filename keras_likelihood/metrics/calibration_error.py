"""CAL of regressors as a streaming Keras metric."""

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.metrics.distribution_metric import DistributionMetric


@serializable
class CalibrationError(DistributionMetric):
    """Calibration error (CAL) of the intervals of a regressor.

        CAL = sum_j (p_j - share of targets with F(y) <= p_j)^2

    over the levels p_j = j / levels, j = 1 .. levels - 1. F is the cdf of the
    likelihood. If outcomes are whole numbers, F jumps at the target. The
    target then counts by the part of the jump that lies below p_j (Czado et
    al. 2009). A target that is known by bounds counts in the same way, from
    F(lower) to F(upper). This is the expected share below p_j if the model is
    right (Haider et al. 2020).

    ```python
    cal = kl.metrics.CalibrationError("normal")
    cal.update_state(y, (prediction, scale))
    ```

    Args:
        likelihood: as in `DistributionMetric`.
        levels: number of equal steps of p. Defaults to 20.
        name, dtype: as in `keras.metrics.Metric`.
        **parameters: fixed values of parameters that the output lacks.
    """

    def __init__(
        self,
        likelihood=None,
        *,
        levels: int = 20,
        name: str = "calibration_error",
        dtype=None,
        **parameters,
    ):
        super().__init__(likelihood, name=name, dtype=dtype, **parameters)
        if levels < 2:
            raise ValueError(f"`levels` must be >= 2. Received: {levels}")
        self.levels = levels
        self.below = self.add_variable(
            shape=(levels - 1,), initializer="zeros", name="below"
        )
        self.count = self.add_variable(
            shape=(), initializer="zeros", name="count"
        )

    def update_from(self, distribution, y_true, weights):
        cdf = ops.cast(distribution.cdf(y_true), self.dtype)
        weights = ops.broadcast_to(weights, ops.shape(cdf))
        cdf, weights = ops.reshape(cdf, (-1, 1)), ops.reshape(weights, (-1, 1))
        inside = ops.cast(cdf <= self._levels(), self.dtype)
        if distribution.is_discrete or distribution.takes_bounds:
            below = ops.cast(distribution.cdf_below(y_true), self.dtype)
            below = ops.reshape(below, (-1, 1))
            jump = ops.maximum(cdf - below, 1e-30)
            part = ops.clip((self._levels() - below) / jump, 0.0, 1.0)
            inside = ops.where(cdf <= self._levels(), inside, part)
        self.below.assign_add(ops.sum(weights * inside, axis=0))
        self.count.assign_add(ops.sum(weights))

    def _levels(self):
        steps = ops.arange(1, self.levels, dtype=self.dtype)
        return steps / self.levels

    def result(self):
        share = ops.divide_no_nan(self.below, self.count)
        gap = ops.sum(ops.square(self._levels() - share))
        return ops.where(self.count > 0, gap, ops.zeros_like(gap))

    def get_config(self):
        return {**super().get_config(), "levels": self.levels}
