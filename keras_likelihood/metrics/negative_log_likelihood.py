"""The complete NLL of any likelihood, as a streaming Keras metric."""

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Bernoulli, Likelihood, Softmax
from keras_likelihood.metrics.class_metric import as_logits
from keras_likelihood.metrics.distribution_metric import MeanOverOutcomes


@serializable
class NegativeLogLikelihood(MeanOverOutcomes):
    """Mean negative log-likelihood, constants included.

    ```python
    nll = kl.metrics.NegativeLogLikelihood("normal")
    nll.update_state(y, (prediction, scale))
    ```

    Args:
        likelihood: as in `DistributionMetric`. It is `"softmax"` if no loss of
            a model says which.
        from_logits: whether a single prediction of softmax and Bernoulli holds
            logits (default) or probabilities. A recalibrated model gives
            probabilities.
        name, dtype: as in `keras.metrics.Metric`.
        **parameters: fixed values of parameters that the output lacks.
    """

    default_likelihood = "softmax"

    def __init__(
        self,
        likelihood=None,
        *,
        from_logits: bool = True,
        name: str = "negative_log_likelihood",
        dtype=None,
        **parameters,
    ):
        super().__init__(likelihood, name=name, dtype=dtype, **parameters)
        self.from_logits = from_logits
        if not from_logits and self.likelihood not in (Softmax, Bernoulli):
            raise ValueError(
                "`from_logits=False` is for softmax and bernoulli. "
                f"Received: likelihood={self.likelihood.name()!r}"
            )

    def bind(self, loss):
        super().bind(loss)
        if not self.from_logits:
            raise ValueError(
                f"The loss says what the model gives. Leave out `from_logits` "
                f"of {self.name}. Received: from_logits=False"
            )

    def read(self, y_pred) -> Likelihood:
        if not self.from_logits and not isinstance(y_pred, Likelihood):
            y_pred = as_logits(ops.cast(y_pred, self.dtype), self.likelihood)
        return super().read(y_pred)

    def values(self, distribution, y_true):
        return distribution.nll(y_true)

    def get_config(self):
        return {**super().get_config(), "from_logits": self.from_logits}
