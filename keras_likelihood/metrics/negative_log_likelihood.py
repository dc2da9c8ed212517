"""The complete NLL of any likelihood, as a streaming Keras metric."""

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.metrics.distributions import as_distribution
from keras_likelihood.registration import serializable


@serializable
class NegativeLogLikelihood(keras.metrics.Mean):
    """Mean negative log-likelihood, constants included.

    ```python
    nll = kl.metrics.NegativeLogLikelihood("normal")
    nll.update_state(y, (prediction, scale))
    ```

    Args:
        likelihood: a `Likelihood` or its name. Defaults to `"softmax"`.
        from_logits: whether predictions of softmax and Bernoulli are logits
            (default) or probabilities, as a recalibrated model's.
        name, dtype: as in `keras.metrics.Metric`.
        **parameters: fixed values of parameters that the output lacks.

    Predictions: the likelihood's prediction, or
    `(prediction, parameter, ...)`.
    """

    def __init__(
        self,
        likelihood="softmax",
        *,
        from_logits: bool = True,
        name: str = "negative_log_likelihood",
        dtype=None,
        **parameters,
    ):
        super().__init__(name=name, dtype=dtype)
        self.likelihood = likelihoods.get(likelihood)
        self.from_logits = from_logits
        if not from_logits and self.likelihood.name() not in _AS_LOGITS:
            raise ValueError(
                "`from_logits=False` is for softmax and bernoulli. "
                f"Received: likelihood={self.likelihood.name()!r}"
            )
        for given in parameters:
            self.likelihood.parameter(given)
        self.parameters = parameters

    def update_state(self, y_true, y_pred, sample_weight=None):
        if not self.from_logits:
            y_pred = _AS_LOGITS[self.likelihood.name()](
                ops.cast(y_pred, self.dtype)
            )
        distribution, y_true = as_distribution(
            self.likelihood, y_true, y_pred, self.parameters, self.dtype
        )
        nll = distribution.nll(y_true)
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, nll.dtype)
            while len(sample_weight.shape) < len(nll.shape):
                sample_weight = sample_weight[..., None]
            sample_weight = ops.broadcast_to(sample_weight, ops.shape(nll))
        super().update_state(nll, sample_weight)

    def get_config(self):
        return {
            **super().get_config(),
            "likelihood": self.likelihood.name(),
            "from_logits": self.from_logits,
            **self.parameters,
        }


def _log(p):
    return ops.log(ops.maximum(p, keras.config.epsilon()))


_AS_LOGITS = {
    "softmax": _log,
    "bernoulli": lambda p: _log(p) - _log(1 - p),
}
