"""A loss for waiting times."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Exponential
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
