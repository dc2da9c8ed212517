"""Student's t likelihood of vectors."""

import math

import keras
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.constraints import Softplus
from keras_likelihood.likelihoods.multivariate import Multivariate
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.student_t import StudentT, normalizer_excess


class MultivariateStudentT(Multivariate):
    """Student's t distribution of vectors, with one `df` for all entries.

        nll(y) = (df + d) / 2 * log(1 + r^T S^-1 r / df) + log det(S) / 2
                 + d log(df pi) / 2 + log G(df / 2) - log G((df + d) / 2)

    Here `r = y - prediction`, S is the squared scale and G the gamma function.
    If one entry of a vector is wrong, the whole vector counts less.

    Args:
        covariance: `"full"` (default), `"low_rank"` or `"diagonal"`: the
            shape of the scale, see `Multivariate`.
        rank: columns of the low-rank part, for `"low_rank"` only.

    A call on the class that this makes takes the `prediction`, the median
    `(batch, ..., d)`, `df` `(batch, ..., 1)`, and the parameters of
    `MultivariateNormal`.
    """

    own_parameters = (Parameter("df", Softplus(floor=1.0), initial=4.0),)

    def _df(self):
        """Degrees of freedom per vector."""
        return self.df[..., 0] if len(self.df.shape) else self.df

    def nll(self, y):
        residual = self._check_target(y) - self.prediction
        matrix = self.scale_matrix
        df, d = self._df(), residual.shape[-1]
        distance = matrix.squared_distance(residual)
        tail = 0.5 * (df + d) * ops.log1p(distance / df)
        return tail + matrix.log_determinant() + _log_partition(df, d)

    def sample(self, count=None, seed=None):
        shape = self._sample_shape(count)
        noise = self.scale_matrix.noise(shape, seed)
        half = (*shape[:-1], 1)
        half_df = ops.broadcast_to(clip(0.5 * self.df, 0.0, 1e14), half)
        other = seed + 2 if isinstance(seed, int) else seed
        gamma = self._draw(keras.random.gamma, half, half_df, seed=other)
        return self.prediction + noise * ops.sqrt(half_df / gamma)

    def mean(self):
        return ops.where(self.df > 1, self.prediction, float("nan"))

    def variance(self):
        """Variances of the entries. They are infinite up to `df = 2`."""
        square = ops.diagonal(self.scale_squared(), axis1=-2, axis2=-1)
        return square * StudentT(self.df, df=self.df).standard_variance()

    def information(self):
        """`(df + d) / (df + d + 2)` times the diagonal of `S^-1`."""
        diagonal = self.scale_matrix.precision_diagonal()
        share = 1 - 2 / (self.df + self.prediction.shape[-1] + 2)
        return ops.broadcast_to(diagonal * share, ops.shape(self.prediction))

    def _one_coordinate(self, mean, scale):
        return StudentT(mean, df=self.df, scale=scale)

    def _after_seeing(self, count, distance):
        df = self._df()
        factor = ((df + distance) / (df + count))[..., None, None]
        return factor, {"df": self.df + count}


def _log_partition(df, d):
    """`d log(df pi) / 2 + log G(df / 2) - log G((df + d) / 2)`.

    It uses `G(a + 1) = a G(a)` and avoids differences of large numbers.
    """
    total = 0.5 * d * math.log(2 * math.pi) + 0.0 * df
    start = 0.5 * df
    if d % 2:
        total = total + normalizer_excess(start)
        start = start + 0.5
    for k in range(d // 2):
        total = total - ops.log1p((start + k - 0.5 * df) / (0.5 * df))
    return total
