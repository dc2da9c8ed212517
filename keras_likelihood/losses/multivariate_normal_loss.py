"""Squared error of vectors, with a learned covariance."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import MultivariateNormal
from keras_likelihood.losses.multivariate_loss import MultivariateLoss


@serializable
class MultivariateNormalLoss(MultivariateLoss):
    """Negative log-likelihood of vectors under MultivariateNormal.

    ```python
    loss = kl.losses.MultivariateNormalLoss(covariance="full")
    outputs = kl.layers.LikelihoodHead(loss.likelihood, 4)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=loss)
    ```

    Args:
        covariance: `"full"` (default), `"low_rank"` or `"diagonal"`.
        rank: columns of the low-rank part, for `"low_rank"` only.
        **options: the parameters of the likelihood, such as `scale`;
            `dimension`, `reduction`, `name` and `dtype` of `LikelihoodLoss`.
    """

    family = MultivariateNormal
