"""PCA+S: a linear auto-encoder with a predicted scale."""

import keras

from keras_likelihood.outliers.scale_detector import ScaleDetector, dense

_WIDEST_CODE = 256
"""Largest number of directions. The time grows with it."""


class PCAScale(ScaleDetector):
    """Finds outliers by the scale of a linear auto-encoder's errors.

        decode(encode(x)) = dropout(x) A B + b

    `A` has half as many columns as the data, at most 256. They are like the
    directions of PCA, but outliers have little influence on them.

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
