"""A rising curve of any shape for each class."""

import numpy as np

from keras_likelihood.recalibration.one_vs_rest import OneVsRest


class Isotonic(OneVsRest):
    """Isotonic regression of each class's probability (scikit-learn's).

    It may change the predicted classes, and it needs many examples of each
    class.

    >>> probabilities = Isotonic().fit_arrays(logits, y).calibrate(logits)
    """

    def _curves(self, odds, labels, weight):
        from sklearn.isotonic import IsotonicRegression

        tables = []
        for c in range(odds.shape[1]):
            curve = IsotonicRegression(y_min=0, y_max=1)
            curve.fit(odds[:, c], labels == c, sample_weight=weight)
            tables.append((curve.X_thresholds_, curve.y_thresholds_))
        return [(np.asarray(s), np.asarray(v)) for s, v in tables]
