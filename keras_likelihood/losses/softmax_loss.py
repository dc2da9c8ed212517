"""Cross-entropy with a learned temperature."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Softmax
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class SoftmaxLoss(LikelihoodLoss):
    """Negative log-likelihood of classes under a tempered softmax.

        log sum_c exp(logits_c / temperature) - logits_y / temperature

    Targets are class numbers or one-hot (or soft) labels. Their shape says
    which. The model must give logits, not probabilities.

    ```python
    model.compile("adam", loss=kl.losses.SoftmaxLoss(), metrics=["accuracy"])
    ```

    Args:
        temperature: divides the logits: a number, `"global"`, a
            `GlobalParameter`, or `None` (default). With `None` the head
            predicts it, or else the loss learns it.
        **options: `ignore_class`, `dimension`, `reduction`, `name` and
            `dtype` of `LikelihoodLoss`.
    """

    likelihood = Softmax

    def __init__(self, temperature=None, **options):
        super().__init__(temperature=temperature, **options)
