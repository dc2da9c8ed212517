"""A head for classifiers that predicts logits and a temperature."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.likelihood_head import LikelihoodHead


@serializable
class TemperatureHead(LikelihoodHead):
    """Maps features to `(logits, temperature)`, for softmax or Bernoulli loss.

    ```python
    outputs = kl.layers.TemperatureHead(10)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.SoftmaxLoss())
    ```

    Args:
        units: number of classes (softmax) or of yes/no outcomes (Bernoulli).
        likelihood: `"softmax"` (default) or `"bernoulli"`.
        **options: those of `LikelihoodHead`.
    """

    def __init__(self, units: int, *, likelihood="softmax", **options):
        super().__init__(likelihood, units, **options)
        names = [p.name for p in self.likelihood.parameters]
        if names != ["temperature"]:
            raise ValueError(
                "`TemperatureHead` is for likelihoods whose one parameter is "
                f"a temperature. Received: {self.likelihood.name()!r}, which "
                f"has {names}; use `LikelihoodHead`"
            )
