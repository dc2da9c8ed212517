"""The normal likelihood of vectors."""

from keras import ops

from keras_likelihood.likelihoods.multivariate import Multivariate
from keras_likelihood.likelihoods.normal import Normal
from keras_likelihood.likelihoods.special import HALF_LOG_2_PI


class MultivariateNormal(Multivariate):
    """Normal distribution of vectors: boxes, key points, joint forecasts.

        nll(y) = r^T C^-1 r / 2 + log det(C) / 2 + d log(2 pi) / 2

    with `r = y - prediction` and C the covariance.

    ```python
    box = kl.likelihoods.MultivariateNormal(covariance="full")
    outputs = kl.layers.LikelihoodHead(box, 4)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.LikelihoodLoss(box))
    found = model.predict_distribution(x)
    found.marginal(0).interval(0.9)
    found.conditional([0, 1], corner)
    ```

    Args:
        covariance: `"full"` (default), `"low_rank"` or `"diagonal"`.
        rank: columns of the low-rank part, for `"low_rank"` only.

    A call on the class that this makes takes the `prediction`, the mean
    `(batch, ..., d)`, and the parameters `scale` `(batch, ..., d)`, and
    `lower` `(batch, ..., d (d - 1) / 2)` or `factor`
    `(batch, ..., d * rank)`.
    """

    def nll(self, y):
        residual = self._check_target(y) - self.prediction
        matrix = self.scale_matrix
        distance = matrix.squared_distance(residual)
        size = residual.shape[-1] * HALF_LOG_2_PI
        return 0.5 * distance + matrix.log_determinant() + size

    def sample(self, count=None, seed=None):
        shape = self._sample_shape(count)
        return self.prediction + self.scale_matrix.noise(shape, seed)

    def mean(self):
        return self.prediction

    def variance(self):
        return ops.diagonal(self.scale_squared(), axis1=-2, axis2=-1)

    def information(self):
        diagonal = self.scale_matrix.precision_diagonal()
        return ops.broadcast_to(diagonal, ops.shape(self.prediction))

    def _one_coordinate(self, mean, scale):
        return Normal(mean, scale=scale)

    def _after_seeing(self, count, distance):
        return 1.0, {}
