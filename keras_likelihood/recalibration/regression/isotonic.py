"""Kuleshov's recalibration: an isotonic map of the predicted cdf."""

import numpy as np
from scipy import stats

from keras_likelihood.likelihoods.checks import as_weight
from keras_likelihood.recalibration.regression.regressor import (
    as_column,
    location_and_scale,
)


class Isotonic:
    """Maps a normal regressor's cdf onto the observed frequencies.

        F'(y) = R(F(y)),    R isotonic, R(F_i(y_i)) ~ rank_i / n

    The result is a cdf without a density, so it has no NLL and no Keras model.

    >>> fitted = Isotonic().fit_arrays(prediction, y, scale=scale)
    >>> fitted.calibrate(prediction, scale=scale).cdf(y)
    """

    def fit_arrays(self, prediction, y, *, scale=None, sample_weight=None):
        """Fits R to a regressor's outputs.

        Args:
            prediction: `(n,)` or `(n, 1)`.
            y: targets, `(n,)` or `(n, 1)`.
            scale: predicted scale, `> 0`, or `None` for 1.
            sample_weight: weights `>= 0`, `(n,)`, or `None`.
        """
        from sklearn.isotonic import IsotonicRegression

        location, base = location_and_scale(prediction, scale)
        cdf = stats.norm.cdf((as_column(y, "y") - location) / base)
        weight = as_weight(sample_weight, cdf.shape)
        order = np.argsort(cdf)
        below = np.searchsorted(cdf[order], cdf, side="right")
        share = np.cumsum(weight[order])[below - 1] / weight.sum()
        curve = IsotonicRegression(y_min=0, y_max=1)
        curve.fit(cdf, share, sample_weight=weight)
        self.parameters_ = {
            "cdf": np.concatenate([[0.0], curve.X_thresholds_, [1.0]]),
            "frequency": np.concatenate([[0.0], curve.y_thresholds_, [1.0]]),
        }
        return self

    def calibrate(self, prediction, *, scale=None) -> "MappedNormal":
        """Returns the distribution with the mapped cdf."""
        location, base = location_and_scale(prediction, scale)
        p = self.parameters_
        return MappedNormal(location, base, p["cdf"], p["frequency"])


class MappedNormal:
    """A normal distribution whose cdf is mapped by an increasing table.

    `cdf` are the knots, from 0 to 1, and `frequency` the mapped cdf there.
    """

    def __init__(self, location, scale, cdf, frequency):
        self.location = location
        self.scale = scale
        self._cdf, self._frequency = cdf, frequency

    def cdf(self, y):
        """Probability of an outcome at most `y`."""
        normal = stats.norm.cdf((y - self.location) / self.scale)
        return np.interp(normal, self._cdf, self._frequency)

    def quantile(self, p):
        """The value below which a fraction `p` of outcomes falls."""
        # Flat steps of the table have no inverse. Their left ends are kept.
        rising = np.concatenate([[True], np.diff(self._frequency) > 0])
        level = np.interp(p, self._frequency[rising], self._cdf[rising])
        return self.location + self.scale * stats.norm.ppf(level)
