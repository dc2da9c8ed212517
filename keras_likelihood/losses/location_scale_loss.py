"""Losses of a location and a scale, with a say in who trains the location."""

from keras import ops

from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.registration import serializable


@serializable
class LocationScaleLoss(LikelihoodLoss):
    """Negative log-likelihood with terms weighted by their scale.

        weight nll(y),    weight = scale^(beta k), held constant

    With a predicted scale, large errors are excused as noise early in
    training and such outcomes are then neglected. `beta` mends this: 0 is
    the plain likelihood, 0.5 the usual compromise (beta-NLL, Seitzer et al.
    2022, for the normal); at 1 the scale no longer decides who trains the
    prediction.

    The power k is `scale_exponent()` of the likelihood. It is chosen such
    that at `beta=1` the pull of a residual on the prediction, which is the
    gradient of its term, does not depend on the scale:

    - Normal, k = 2: the pull is the residual, as under squared error.
    - Laplace, k = 1: the pull is the residual's sign, as under absolute
      error.
    - Student's t, k = 2 (df + 2) / (df + 5); the robust loss, from k = 1 at
      shape 0 to k = 2 at shape 2. No power of the scale frees every residual
      here. What holds is the expectation: for residuals that follow the
      likelihood, the expected squared pull has no first-order change with
      the predicted scale.

    Any other likelihood gets its k by the last rule, which gives those of
    the normal and of the Laplace distribution too.

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

    def prediction_weight(self, distribution):
        """The constant weight of each outcome, before any balancing.

        Args:
            distribution: a likelihood with a `scale`.

        Returns:
            Tensor that broadcasts against the prediction.
        """
        power = self.beta * distribution.scale_exponent()
        return ops.stop_gradient(distribution.scale**power)

    def elementwise(self, distribution, y_true):
        nll = distribution.nll(y_true)
        if self.beta == 0:
            return nll
        weight = self.prediction_weight(distribution)
        if self.balanced:
            weight = weight / ops.mean(weight)
        return nll * weight

    def get_config(self):
        return {
            **super().get_config(),
            "beta": self.beta,
            "balanced": self.balanced,
        }
