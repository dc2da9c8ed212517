"""Classes whose labels are partly wrong, with a vector for each example."""

from typing import Any

from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import Identity
from keras_likelihood.likelihoods.classes import Softmax
from keras_likelihood.likelihoods.parameter import Parameter

FORGETTING = 0.3
"""Weight of the current prediction in the memory of `NoisyLabels`."""
_AGREEMENT = 3.0
"""Weight of the term that rewards agreement with the memory."""
_LEAST = 1e-4
_START = 1e-8
"""Initial noise of `SparseNoise`."""


def _vector(name: str, initial: float, **options: Any) -> Parameter:
    """A vector with one entry per class, for each row of a data parameter."""
    options |= {"neutral": True, "size": lambda units: units}
    return Parameter(name, Identity(), initial, **options)


class NoisyLabels(Softmax, registered=False):
    """Softmax with early-learning regularization for noisy labels.

    A network learns correct labels before it memorizes wrong ones. So every
    example has a memory m, the running mean of its predicted probabilities p,
    and the network is rewarded for agreeing with the memory:

        nll(y) = -log p_y + 3 log(1 - sum_k p_k m_k)

    Without a memory it is the cross-entropy. The method and its constants (for
    CIFAR-10) are from Liu, Niles-Weed, Razavian and Fernandez-Granda (2020).
    The second term is a prior, so probabilities do not sum to one.

    Args:
        prediction: logits, `(batch, ..., classes)`.
        temperature: divides the logits. Defaults to 1.
        memory: `(batch, ..., classes)`. Early in training its sum is below one
            and the reward is smaller.
    """

    parameters = (
        *Softmax.parameters,
        _vector("memory", 0.0, rate=FORGETTING, row_rule="running_mean"),
    )

    def nll(self, y: Tensor) -> Tensor:
        p = clip(self.mean(), _LEAST, 1 - _LEAST)
        # The memory after this step, or 0 if the example has no memory.
        known = ops.cast(self.memory > 0, p.dtype)
        memory = (1 - FORGETTING) * self.memory + FORGETTING * known * p
        agreement = 1 - ops.sum(p * ops.stop_gradient(memory), axis=-1)
        return super().nll(y) + _AGREEMENT * ops.log(agreement)

    def followed(self, name: str) -> Tensor:
        return self.mean()


class SparseNoise(Softmax, registered=False):
    """Softmax whose wrong labels are explained by a vector per example.

    Every training example has a vector s, which starts near zero and is
    learned by gradient descent. Its squares move probability from the classes
    that the network predicts to the label of the example:

        q = p + s^2 at the label, p - s^2 at all other classes
        nll(y) = -log(q_y / sum q) + |h + s^2 - y|^2,    h = one-hot(argmax p)

    with the signs of s^2 as in q. The gradient of s is proportional to s, so
    only the vectors of examples that the network contradicts for a long time
    grow (sparse over-parametrization, SOP, Liu, Zhu, Qu and You 2022). Without
    vectors it is the cross-entropy. The second term is a prior, so
    probabilities do not sum to one.

    Args:
        prediction: logits, `(batch, ..., classes)`.
        temperature: divides the logits. Defaults to 1.
        noise: the vectors s, `(batch, ..., classes)`.
    """

    parameters = (
        *Softmax.parameters,
        _vector("noise", _START, rate=10 / 128, row_rule="sgd"),
    )

    def nll(self, y: Tensor) -> Tensor:
        p, classes = self.mean(), self.prediction.shape[-1]
        if len(y.shape) < len(p.shape):
            y = ops.one_hot(ops.cast(y, "int32"), classes)
        y = ops.cast(y, p.dtype)
        square = clip(ops.square(self.noise), 0.0, 1.0)
        label, others = square * y, square * (1 - y)
        q = clip(p + label - ops.stop_gradient(others), _LEAST, 2.0)
        nll = ops.log(ops.sum(q, axis=-1)) - ops.sum(y * ops.log(q), axis=-1)
        likeliest = ops.argmax(self.prediction, axis=-1)
        hard = ops.one_hot(likeliest, classes, dtype=p.dtype)
        distance = ops.sum(ops.square(hard + label - others - y), axis=-1)
        # A constant for examples without a vector.
        has_vector = ops.any(ops.not_equal(self.noise, _START), axis=-1)
        return nll + ops.where(has_vector, distance, 0.0)
