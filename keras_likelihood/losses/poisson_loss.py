"""A loss for counts."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Poisson
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
