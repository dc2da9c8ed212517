"""PCA+S: a linear auto-encoder with a predicted scale."""

import keras

from keras_likelihood.outliers.scale_detector import ScaleDetector, dense

_WIDEST_CODE = 256
"""Directions enough for any table; time grows with columns times these."""


class PCAScale(ScaleDetector):
    """Finds outliers by the scale of a linear auto-encoder's errors.

        decode(encode(x)) = dropout(x) A B + b

    `A` has a column for every second column of the data, at most 256: the
    directions of PCA, but found under a loss in which outliers weigh little.

    >>> detector = PCAScale(random_state=0).fit(x)
    >>> strangest = detector.decision_scores_.argsort()[::-1][:10]
    >>> detector.predict(x_new)

    Args:
        **options: those of `ScaleDetector`.
    """

    def _reconstruct(self, noisy, units, seed):
        kept = keras.layers.Dropout(self.dropout, seed=seed)(noisy)
        code_units = min(-(-units // 2), _WIDEST_CODE)
        code = dense(code_units, None, use_bias=False)(kept)
        return dense(units, None)(code)
