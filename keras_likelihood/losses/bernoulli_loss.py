"""Binary cross-entropy with a learned temperature."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Bernoulli
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class BernoulliLoss(LikelihoodLoss):
    """Negative log-likelihood of yes/no targets under tempered logits.

        log(1 + exp(l)) - y l,    l = logits / temperature

    ```python
    model.compile("adam", loss=kl.losses.BernoulliLoss())
    ```

    Args:
        temperature: divides the logits: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `ignore_class`, `dimension`, `reduction`, `name` and
            `dtype` of `LikelihoodLoss`.
    """

    likelihood = Bernoulli

    def __init__(self, temperature=None, **options):
        super().__init__(temperature=temperature, **options)
