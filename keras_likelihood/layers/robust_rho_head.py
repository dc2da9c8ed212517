"""A head that predicts a value, a tail shape and a scale."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.likelihood_head import LikelihoodHead


@serializable
class RobustRhoHead(LikelihoodHead):
    """Maps features to `(prediction, shape, scale)`, for `RobustRhoLoss`.

    ```python
    outputs = kl.layers.RobustRhoHead(3, conditioning={"shape": "global"})(maps)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.RobustRhoLoss())
    ```

    Args:
        units: size of the prediction's last axis.
        **options: those of `LikelihoodHead`.
    """

    def __init__(self, units: int, **options):
        likelihood = options.pop("likelihood", "robust_rho")
        if likelihood != "robust_rho":
            raise ValueError(
                "`RobustRhoHead` has the likelihood 'robust_rho'. "
                f"Received: {likelihood!r}; use `LikelihoodHead`"
            )
        super().__init__(likelihood, units, **options)
