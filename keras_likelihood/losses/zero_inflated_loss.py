"""A loss for counts with many zeros."""

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class ZeroInflatedLoss(LikelihoodLoss):
    """Negative log-likelihood of counts with additional zeros.

        P(0) = zero_probability + (1 - zero_probability) P_count(0)

    The prediction is the mean of all outcomes and must be `>= 0`.

    ```python
    counts = kl.likelihoods.ZeroInflated("negative_binomial")
    outputs = kl.layers.LikelihoodHead(counts, units=1)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.ZeroInflatedLoss("negative_binomial"))
    ```

    Args:
        likelihood: a `CountLikelihood` or its name. Defaults to
            `"poisson"`.
        zero_probability: share of additional zeros: a number in (0, 1),
            `"global"`, a `GlobalParameter`, or `None` (default). With `None`
            the head predicts it, or else the loss learns it.
        **options: further parameters of the likelihood; `dimension`,
            `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    def __init__(self, likelihood="poisson", zero_probability=None, **options):
        super().__init__(
            likelihoods.ZeroInflated(likelihood),
            zero_probability=zero_probability,
            **options,
        )

    def get_config(self):
        inner = self.likelihood.likelihood.name()
        return {**super().get_config(), "likelihood": inner}
