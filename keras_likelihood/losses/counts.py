"""Losses of counts."""

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import NegativeBinomial, Poisson
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class PoissonLoss(LikelihoodLoss):
    """Negative log-likelihood of counts under the Poisson distribution.

        prediction - y log(prediction) + log(y!)

    The prediction is the mean count and must be `>= 0`: use
    `LikelihoodHead("poisson", units)`, or a stock model whose last layer has
    an activation such as `"softplus"` or `"exponential"`. There are no
    parameters to learn, so that any Keras model can be trained with it.

    ```python
    outputs = keras.layers.Dense(1, activation="softplus")(features)
    model = keras.Model(inputs, outputs)
    model.compile("adam", loss=kl.losses.PoissonLoss())
    ```

    Args:
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = Poisson


@serializable
class NegativeBinomialLoss(LikelihoodLoss):
    """Negative log-likelihood of the negative binomial distribution.

        variance = prediction + dispersion * prediction^2

    The prediction is the mean count and must be `>= 0`: use
    `LikelihoodHead("negative_binomial", units)`, or an activation such as
    `"softplus"`.

    ```python
    model.compile("adam", loss=kl.losses.NegativeBinomialLoss())
    ```

    Args:
        dispersion: (variance - mean) / mean^2: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = NegativeBinomial

    def __init__(self, dispersion=None, **options):
        super().__init__(dispersion=dispersion, **options)


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
