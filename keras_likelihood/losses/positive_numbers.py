"""Losses of positive numbers and of shares."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import (
    Beta,
    Exponential,
    Gamma,
    LogNormal,
    Weibull,
)
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class ExponentialLoss(LikelihoodLoss):
    """Negative log-likelihood of the exponential distribution.

        y / prediction + log(prediction)

    The prediction is the mean and must be `>= 0`: use
    `LikelihoodHead("exponential", units)`, or a stock model whose last layer
    has an activation such as `"softplus"`. There are no parameters to learn,
    so that any Keras model can be trained with it. Targets are `>= 0`.

    ```python
    outputs = keras.layers.Dense(1, activation="softplus")(features)
    model = keras.Model(inputs, outputs)
    model.compile("adam", loss=kl.losses.ExponentialLoss())
    ```

    Args:
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = Exponential


@serializable
class GammaLoss(LikelihoodLoss):
    """Negative log-likelihood of the gamma distribution.

        standard deviation = prediction / sqrt(shape)

    The prediction is the mean and must be `>= 0`: use
    `LikelihoodHead("gamma", units)`, or an activation such as `"softplus"`.
    Targets are `> 0`.

    ```python
    model.compile("adam", loss=kl.losses.GammaLoss())
    ```

    Args:
        shape: 1 / (standard deviation / mean)^2: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = Gamma

    def __init__(self, shape=None, **options):
        super().__init__(shape=shape, **options)


@serializable
class WeibullLoss(LikelihoodLoss):
    """Negative log-likelihood of the Weibull distribution.

        z^shape - shape log(z) + log(y) - log(shape),    z = y / scale

    The prediction is the mean and must be `>= 0`; the scale follows from it:
    use `LikelihoodHead("weibull", units)`, or an activation such as
    `"softplus"`. Targets are `> 0`.

    ```python
    model.compile("adam", loss=kl.losses.WeibullLoss())
    ```

    Args:
        shape: below 1 the hazard falls with time, above 1 it rises: a number,
            `"global"`, a `GlobalParameter`, or `None` (default). With `None`
            the head predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = Weibull

    def __init__(self, shape=None, **options):
        super().__init__(shape=shape, **options)


@serializable
class LogNormalLoss(LikelihoodLoss):
    """Negative log-likelihood of the log-normal distribution.

        log(y) is normal around log(prediction) - scale^2 / 2

    The prediction is the mean and must be `>= 0`: use
    `LikelihoodHead("log_normal", units)`, or an activation such as
    `"softplus"`. Targets are `> 0`.

    ```python
    model.compile("adam", loss=kl.losses.LogNormalLoss())
    ```

    Args:
        scale: standard deviation of log(y): a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = LogNormal

    def __init__(self, scale=None, **options):
        super().__init__(scale=scale, **options)


@serializable
class BetaLoss(LikelihoodLoss):
    """Negative log-likelihood of the beta distribution.

        variance = prediction (1 - prediction) / (1 + concentration)

    The prediction is the mean share: use `LikelihoodHead("beta", units)`, or
    the activation `"sigmoid"`. Targets lie strictly between 0 and 1.

    ```python
    model.compile("adam", loss=kl.losses.BetaLoss())
    ```

    Args:
        concentration: the higher, the narrower: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = Beta

    def __init__(self, concentration=None, **options):
        super().__init__(concentration=concentration, **options)
