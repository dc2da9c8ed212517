"""Losses of likelihoods with a location and a scale."""

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class LocationScaleLoss(LikelihoodLoss):
    """Negative log-likelihood with terms weighted by their scale.

        weight nll(y),    weight = scale^(beta k), held constant

    If the scale is predicted, the model may explain large errors as noise
    early in the training. It then neglects these outcomes. `beta` corrects
    this. With 0 the loss is the plain likelihood. 0.5 is the usual compromise
    (beta-NLL, Seitzer et al. 2022, for the normal). With 1 the scale does not
    change how much an outcome trains the prediction.

    The power k is `scale_exponent()` of the likelihood. It is chosen so that
    at `beta=1` the gradient of an outcome's term by the prediction does not
    depend on the scale:

    - Normal, k = 2: the gradient is the residual, as with squared error.
    - Laplace, k = 1: the gradient is the residual's sign, as with absolute
      error.
    - Student's t, k = 2 (df + 2) / (df + 5), and the robust loss, from k = 1
      at shape 0 to k = 2 at shape 2. For these no power makes the gradient
      independent of the scale for every residual. It holds on average: for
      residuals that follow the likelihood, the expected squared gradient has
      no first-order change with the predicted scale.

    Any other likelihood gets its k by the last rule. For the normal and the
    Laplace distribution this rule gives the same k as above.

    Args:
        likelihood: one with a `scale`, or its name.
        beta: in [0, 1]. Defaults to 0.
        balanced: whether to divide the weights by their mean over the outcomes
            of the batch that count. The loss then keeps its size relative to
            regularizers and other added losses. Sample weights and masks count
            in this mean. Defaults to False.
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

    def prediction_weight(self, distribution):
        """The constant weight of each outcome, before any balancing."""
        power = self.beta * distribution.scale_exponent()
        return ops.stop_gradient(distribution.scale**power)

    def outcome_losses(self, distribution, y_true, weights):
        nll = self.elementwise(distribution, y_true)
        if self.beta == 0:
            return nll
        weight = self.prediction_weight(distribution)
        if self.balanced:
            counts = ops.cast(weights, nll.dtype)
            weight, counts = (
                ops.broadcast_to(w, ops.shape(nll)) for w in (weight, counts)
            )
            total = ops.sum(counts * weight)
            weight = weight / ops.divide_no_nan(total, ops.sum(counts))
        return nll * weight

    def get_config(self):
        return {
            **super().get_config(),
            "beta": self.beta,
            "balanced": self.balanced,
        }
