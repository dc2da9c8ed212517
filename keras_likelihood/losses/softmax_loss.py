"""Cross-entropy with its temperature set free."""

from keras_likelihood.likelihoods import Softmax
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.registration import serializable


@serializable
class SoftmaxLoss(LikelihoodLoss):
    """Negative log-likelihood of classes under a tempered softmax.

        log sum_c exp(logits_c / temperature) - logits_y / temperature

    Targets are class numbers or one-hot (or soft) labels; the shape tells
    which. The model gives logits, never probabilities.

    ```python
    model.compile("adam", loss=kl.losses.SoftmaxLoss(), metrics=["accuracy"])
    ```

    Args:
        temperature: divides the logits: a number, `"global"`, a
            `GlobalParameter`, or `None` (default) for the head's, else a
            learned one.
        **options: `dimension`, `reduction`, `name` and `dtype` of
            `LikelihoodLoss`.
    """

    likelihood = Softmax

    def __init__(self, temperature=None, **options):
        super().__init__(temperature=temperature, **options)
