"""Losses of a location and a scale, with a say in who trains the location."""

from keras import ops

from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.registration import serializable


@serializable
class LocationScaleLoss(LikelihoodLoss):
    """Negative log-likelihood with terms weighted by their scale.

        weight nll(y),    weight = scale^(2 beta), held constant

    With a predicted scale, large errors are excused as noise early in
    training and such outcomes are then neglected. `beta` mends this: 0 is
    the plain likelihood, 0.5 the usual compromise; at 1 the scale no longer
    decides who trains the prediction.

    Args:
        likelihood: one with a `scale`, or its name.
        beta: in [0, 1]. Defaults to 0.
        balanced: divide the weights by their mean over the batch, so that
            the loss keeps its size beside regularizers and other added
            losses. Defaults to False.
        **options: those of `LikelihoodLoss`.
    """

    def __init__(
        self,
        likelihood=None,
        *,
        beta: float = 0.0,
        balanced: bool = False,
        **options,
    ):
        super().__init__(likelihood, **options)
        self.likelihood.parameter("scale")
        if not 0 <= beta <= 1:
            raise ValueError(f"`beta` must be in [0, 1]. Received: {beta}")
        self.beta = float(beta)
        self.balanced = bool(balanced)

    def elementwise(self, distribution, y_true):
        nll = distribution.nll(y_true)
        if self.beta == 0:
            return nll
        weight = ops.stop_gradient(distribution.scale) ** (2 * self.beta)
        if self.balanced:
            weight = weight / self.weighted_mean(weight)
        return nll * weight

    def get_config(self):
        return {
            **super().get_config(),
            "beta": self.beta,
            "balanced": self.balanced,
        }
