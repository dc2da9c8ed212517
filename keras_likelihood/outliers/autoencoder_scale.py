"""AE+S: a deep auto-encoder with a predicted scale."""

import keras

from keras_likelihood.outliers.scale_detector import ScaleDetector, dense


class AutoencoderScale(ScaleDetector):
    """Finds outliers by the scale of a deep auto-encoder's errors.

        encode(x) = dropout(relu(x A)) B,    decode(c) = relu(c C) D + d

    The code is as wide as the data. Noise and dropout keep the network from
    copying its input. There is no bottleneck.

    >>> detector = AutoencoderScale(random_state=0).fit(x)
    >>> detector.decision_function(x_new)

    Args:
        hidden_units: width of the hidden layers of encoder and decoder.
            Defaults to 64.
        noise: largest level of noise, `>= 0`. Defaults to 1, because a
            nonlinear map needs less noise than a linear one.
        **options: those of `ScaleDetector`.
    """

    def __init__(
        self,
        *,
        hidden_units: int = 64,
        noise: float = 1.0,
        dropout: float = 0.2,
        scale_units: int = 64,
        steps: int = 1000,
        batch_size: int = 256,
        learning_rate: float = 2e-3,
        early_stopping: bool = False,
        patience: int = 5,
        validation_fraction: float = 0.1,
        contamination: float = 0.1,
        random_state=None,
        verbose: bool = False,
    ):
        super().__init__(
            noise=noise,
            dropout=dropout,
            scale_units=scale_units,
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            early_stopping=early_stopping,
            patience=patience,
            validation_fraction=validation_fraction,
            contamination=contamination,
            random_state=random_state,
            verbose=verbose,
        )
        self.hidden_units = hidden_units

    def _check_options(self):
        super()._check_options()
        if not self.hidden_units >= 1:
            raise ValueError(
                f"`hidden_units` must be >= 1. Received: {self.hidden_units}"
            )

    def _reconstruct(self, noisy, units, seed):
        h = dense(self.hidden_units, "relu")(noisy)
        h = keras.layers.Dropout(self.dropout, seed=seed)(h)
        code = dense(units, None, use_bias=False)(h)
        h = dense(self.hidden_units, "relu")(code)
        return dense(units, None)(h)
