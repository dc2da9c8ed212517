"""The softmax likelihood: cross-entropy with its temperature set free."""

import keras
from keras import ops

from keras_likelihood.backend.probability import tfp_distributions
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods.likelihood import Likelihood, Parameter


class Softmax(Likelihood):
    """Categorical distribution over the last axis of the logits.

        nll(y) = log sum_c exp(logits_c / temperature) - logits_y / temperature

    At `temperature = 1` it is the cross-entropy. The temperature divides, so
    a high one means uncertain; the literature also writes its inverse,
    tau = 1 / temperature.

    Args:
        prediction: logits, `(batch, ..., classes)`.
        temperature: `> 0`; its last axis is 1. Defaults to 1.
    """

    parameters = (Parameter("temperature", ShiftedSoftplus(0.2), neutral=True),)
    event_rank = 1

    @property
    def logits(self):
        """Logits after division by the temperature."""
        return self.prediction / self.temperature

    def nll(self, y):
        """Negative log-likelihood of the classes `y`.

        Args:
            y: class numbers `(batch, ...)` or `(batch, ..., 1)`, or one-hot
                or soft labels of the logits' shape.

        Returns:
            One value per outcome, `(batch, ...)`.
        """
        y = ops.convert_to_tensor(y)
        shape, received = tuple(self.prediction.shape), tuple(y.shape)
        if len(shape) < 2 or shape[-1] == 1:
            raise ValueError(
                "Softmax needs logits (batch, ..., classes) with at least two "
                f"classes; one logit is Bernoulli. Received: {shape}"
            )
        if _matches(received, shape):
            return ops.categorical_crossentropy(
                ops.cast(y, self.prediction.dtype),
                self.logits,
                from_logits=True,
            )
        if _matches(received, shape[:-1] + (1,)):
            y = ops.squeeze(y, axis=-1)
        elif not _matches(received, shape[:-1]):
            raise ValueError(
                f"Labels for logits {shape} must be class numbers of shape "
                f"{shape[:-1]} or one-hot of shape {shape}. "
                f"Received: {received}"
            )
        return ops.sparse_categorical_crossentropy(
            ops.cast(y, "int32"), self.logits, from_logits=True
        )

    def mean(self):
        """Class probabilities, of the logits' shape."""
        return ops.softmax(self.logits)

    def class_probabilities(self):
        """Probabilities with the classes on the last axis."""
        return self.mean()

    def sample(self, count=None, seed=None):
        """Draws class numbers: `(batch, ...)`, or `(count, batch, ...)`."""
        gumbel = -ops.log(
            -ops.log(
                keras.random.uniform(
                    self._sample_shape(count),
                    minval=1e-20,
                    dtype=self.prediction.dtype,
                    seed=seed,
                )
            )
        )
        return ops.argmax(self.logits + gumbel, axis=-1)

    def to_tfp(self):
        return tfp_distributions().Categorical(logits=self.logits)


def _matches(received, expected):
    return len(received) == len(expected) and all(
        r == e or r is None or e is None
        for r, e in zip(received, expected, strict=True)
    )
