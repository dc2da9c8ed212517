"""A head that predicts a value and a scale."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.likelihood_head import LikelihoodHead


@serializable
class ScaleHead(LikelihoodHead):
    """Maps features to `(prediction, scale)`, for normal or Laplace losses.

    ```python
    outputs = kl.layers.ScaleHead(1)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.NormalLoss())
    prediction, scale = model.predict(x)
    ```

    Args:
        units: size of the prediction's last axis.
        likelihood: `"normal"` (default), `"laplace"` or another likelihood
            whose only parameter is a scale.
        **options: those of `LikelihoodHead`.
    """

    def __init__(self, units: int, *, likelihood="normal", **options):
        super().__init__(likelihood, units, **options)
        names = [p.name for p in self.likelihood.parameters]
        if names != ["scale"]:
            raise ValueError(
                "`ScaleHead` is for likelihoods whose one parameter is a "
                f"scale. Received: {self.likelihood.name()!r}, which has "
                f"{names}; use `LikelihoodHead`"
            )
