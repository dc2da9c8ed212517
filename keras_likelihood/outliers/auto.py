"""A detector that averages several detectors."""

import numpy as np

from keras_likelihood.outliers.scale_detector import AutoencoderScale
from keras_likelihood.outliers.score_parts import (
    LEVELS,
    fit_marginals,
    fit_tails,
    linear_scores,
    log_tails,
    robust_moments,
    surprise,
)

_MARGINALS = ("middle", "spread", "low", "step", "log_density")


class Auto(AutoencoderScale):
    """Finds outliers of several kinds, by several likelihoods.

    The kind of outliers in a table is not known beforehand. So four kinds of
    score are averaged with equal weights:

        joint     of the row under the best linear denoiser, two levels of
                  noise
        elements  of each column given the others, under the same; their mean
                  and the largest
        columns   -log density of each column by itself, summed
        deep      log scale of `AutoencoderScale`

    Each score is first turned into the logarithm of its tail probability among
    the training rows. So the scores can be compared without labels. The
    choices were made on generated tables (`benchmarks/generated_tables.py`).

    Prior work: averages of calibrated detectors (Aggarwal and Sathe, 2015),
    conditional residuals and tails by columns (Li and others, 2022, ECOD).

    >>> detector = Auto(random_state=0).fit(x)
    >>> strangest = detector.decision_scores_.argsort()[::-1][:10]
    >>> detector.kinds(x_new)

    Args:
        **options: those of `AutoencoderScale`, for the deep part.
    """

    _more_arrays = (
        "moments_mean_",
        "moments_scatter_",
        "element_tails_",
        "part_tails_",
        *(f"marginal_{name}_" for name in _MARGINALS),
    )
    KINDS = ("joint", "elements", "columns", "deep")

    def _fit(self, x):
        deep = super()._fit(x)
        z, excess = self._standardise(x)
        z = z.astype("float64")
        self.moments_mean_, self.moments_scatter_ = robust_moments(z)
        for name, value in fit_marginals(z).items():
            setattr(self, f"marginal_{name}_", value)
        linear = self._linear(z)
        self.element_tails_ = fit_tails(linear[1])
        parts = self._parts(z, linear, deep - excess, len(z))
        self.part_tails_ = fit_tails(parts)
        return self._combine(parts, len(z)).mean(axis=1) + excess

    def _score(self, x):
        z, excess = self._standardise(x)
        return self._kinds(z).mean(axis=1) + excess

    def kinds(self, X) -> dict:  # noqa: N803
        """Scores of rows by kind of outlier.

        Returns:
            A dict of arrays `(n,)` by `"joint"`, `"elements"`, `"columns"` and
            `"deep"`. They are about 1 on average for rows like the training
            rows.
        """
        z, _ = self._standardise(self._check(X, reset=False))
        return dict(zip(self.KINDS, self._kinds(z).T, strict=True))

    def _kinds(self, z):
        deep = super()._predict(z)
        z, rows = z.astype("float64"), len(self.decision_scores_)
        parts = self._parts(z, self._linear(z), deep, rows)
        return self._combine(parts, rows)

    def _linear(self, z):
        return linear_scores(z, self.moments_mean_, self.moments_scatter_)

    def _parts(self, z, linear, deep, rows):
        """All scores before they are combined, one in each column.

        `rows` is the number of rows that `fit` has seen.
        """
        joint, elements = linear
        elements = log_tails(elements, self.element_tails_, rows)
        elements = elements.reshape(len(z), len(LEVELS), -1)
        tables = {n: getattr(self, f"marginal_{n}_") for n in _MARGINALS}
        columns = surprise(z, **tables)
        return np.column_stack(
            [joint, elements.mean(axis=2), elements.max(axis=2), columns, deep]
        )

    def _combine(self, parts, rows):
        """Tails of the four kinds, `(n, 4)`."""
        tails = log_tails(parts, self.part_tails_, rows)
        levels = len(LEVELS)
        joint, elements, others = np.split(tails, [levels, 3 * levels], axis=1)
        return np.column_stack(
            [joint.mean(axis=1), elements.mean(axis=1), others]
        )
