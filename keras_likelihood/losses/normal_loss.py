"""Squared error with its scale set free."""

from keras import ops

from keras_likelihood.likelihoods import Normal
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.registration import serializable


@serializable
class NormalLoss(LikelihoodLoss):
    """Negative log-likelihood of the normal distribution.

        (y - prediction)^2 / (2 scale^2) + log(scale) + log(2 pi) / 2

    With a predicted scale, large errors are excused as noise early in
    training and such examples are then neglected. `beta` mends this: each
    term is weighted by `scale^(2 beta)`, held constant. At 0.5 this is the
    usual compromise; at 1 the prediction is trained exactly as by squared
    error. Together with `ScaleHead(..., isolated=True)`, `beta=1` is the
    faithful scheme: the model is the one that squared error would train and
    the scale is fitted to its residuals.

    ```python
    model.compile("adam", loss=kl.losses.NormalLoss())           # from a head
    model.compile("adam", loss=kl.losses.NormalLoss(scale=0.5))  # fixed
    ```

    Args:
        scale: standard deviation: a number, `"global"`, a `GlobalParameter`,
            or `None` (default) for the head's, else a learned one.
        beta: in [0, 1]. Defaults to 0, the plain likelihood.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = Normal

    def __init__(self, scale=None, *, beta: float = 0.0, **options):
        super().__init__(scale=scale, **options)
        if not 0 <= beta <= 1:
            raise ValueError(f"`beta` must be in [0, 1]. Received: {beta}")
        self.beta = float(beta)

    def elementwise(self, distribution, y_true):
        nll = distribution.nll(y_true)
        if self.beta == 0:
            return nll
        return nll * ops.stop_gradient(distribution.scale) ** (2 * self.beta)

    def get_config(self):
        return {**super().get_config(), "beta": self.beta}
