"""The pinball loss of several quantiles with a learned scale."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Quantiles
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class QuantilesLoss(LikelihoodLoss):
    """Mean asymmetric Laplace NLL of quantiles at several levels.

        mean over levels t of
        pinball_t(y - q_t) / scale + log(scale) - log(t (1 - t))

    `QuantilesHead` predicts quantiles that do not cross. A stock layer
    `Dense(len(levels))` works too. Its quantiles may cross, and
    `predict_distribution` sorts them.

    ```python
    levels = (0.05, 0.5, 0.95)
    outputs = kl.layers.QuantilesHead(levels)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.QuantilesLoss(levels))
    lower, upper = model.predict_distribution(x).interval(0.9)
    ```

    Args:
        levels: increasing, each in (0, 1).
        scale: a number, `"global"`, a `GlobalParameter`, or `None` (default).
            With `None` the head predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    def __init__(self, levels, scale=None, **options):
        super().__init__(Quantiles(levels), scale=scale, **options)

    def get_config(self):
        config = {**super().get_config(), "levels": self.likelihood.levels}
        del config["likelihood"]
        return config
