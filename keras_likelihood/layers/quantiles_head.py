"""A head that predicts several quantiles, which do not cross."""

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.layers.likelihood_head import LikelihoodHead


@serializable
class QuantilesHead(LikelihoodHead):
    """Maps features to `(quantiles, scale)`, for `QuantilesLoss`.

    The first quantile is a plain output. Each other quantile is the one before
    plus a softplus. So the quantiles always increase.

    ```python
    levels = (0.05, 0.5, 0.95)
    outputs = kl.layers.QuantilesHead(levels)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.QuantilesLoss(levels))
    quantiles, scale = model.predict(x)
    ```

    Args:
        levels: increasing, each in (0, 1).
        **options: those of `LikelihoodHead`.
    """

    def __init__(self, levels, **options):
        made = likelihoods.Quantiles(levels)
        super().__init__(made, units=len(made.levels), **options)

    def get_config(self):
        config = {**super().get_config(), "levels": self.likelihood.levels}
        del config["likelihood"], config["units"]
        return config
