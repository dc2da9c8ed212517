"""The continuous ranked probability score as a loss."""

from typing import Any

from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods import Likelihood
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class CRPS(LikelihoodLoss):
    """Mean continuous ranked probability score of a likelihood.

        CRPS = E|Y - y| - E|Y - Y'| / 2

    Like the negative log-likelihood it is smallest for the true distribution.
    It has the unit of the targets and grows only linearly with the error, so
    single outliers have less influence (Gneiting and Raftery 2007). For a
    distribution without spread it is the absolute error.

    ```python
    model.compile("adam", loss=kl.losses.CRPS(kl.likelihoods.Normal))
    ```

    The normal, Laplace, logistic, Student's t and log-normal have closed forms.
    Other likelihoods use 128 quantiles, which takes longer.

    Args:
        likelihood: a continuous `Likelihood` of numbers or its name.
    """

    def _choose(self, likelihood: Any) -> type[Likelihood]:
        found: type[Likelihood] = super()._choose(likelihood)
        fits = not (found.event_rank or found.is_discrete or found.takes_bounds)
        allowed = "a continuous likelihood of numbers"
        check_argument("likelihood", found.name(), fits, allowed)
        return found

    def elementwise(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        return distribution.crps(y_true)
