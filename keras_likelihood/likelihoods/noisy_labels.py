"""Softmax for labels of which some are wrong."""

from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.constraints import Identity
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.softmax import Softmax

FORGETTING = 0.3
"""Share of the present prediction in the memory."""
AGREEMENT = 3.0
"""How much agreement with the memory counts beside the label."""
_LEAST = 1e-4


class NoisyLabels(Softmax, registered=False):
    """Softmax that remembers what it believed of each example.

    A network learns right labels before it learns wrong ones by heart. So
    every example keeps a memory m: the running mean of the probabilities p
    that the network gave it. The network is rewarded for agreeing with it:

        nll(y) = -log p_y + 3 log(1 - sum_k p_k m_k)

    Without a memory it is the cross-entropy. This is early-learning
    regularization (Liu, Niles-Weed, Razavian and Fernandez-Granda, 2020),
    with the memory as a data parameter and the numbers of their experiments
    with CIFAR-10.

    It is a likelihood times a prior on predictions, so it does not sum to one
    over the labels. `mean`, `sample` and all others are those of the true
    class: of the softmax.

    Args:
        prediction: logits, `(batch, ..., classes)`.
        temperature: divides the logits. Defaults to 1.
        memory: `(batch, ..., classes)`. Its sum is below one for an example
            that was seen a few times only, and the reward is smaller then.
    """

    parameters = (
        *Softmax.parameters,
        Parameter(
            "memory",
            Identity(),
            initial=0.0,
            neutral=True,
            size=lambda units: units,
            rate=FORGETTING,
            is_followed=True,
        ),
    )

    def nll(self, y):
        p = clip(self.mean(), _LEAST, 1 - _LEAST)
        # The memory as it will be after this step; none without one.
        known = ops.cast(self.memory > 0, p.dtype)
        memory = (1 - FORGETTING) * self.memory + FORGETTING * known * p
        agreement = 1 - ops.sum(p * ops.stop_gradient(memory), axis=-1)
        return super().nll(y) + AGREEMENT * ops.log(agreement)

    def followed(self, name):
        return self.mean()
