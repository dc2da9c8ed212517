"""Labels whose errors are explained by a sparse vector per example."""

from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import Identity
from keras_likelihood.likelihoods.classes import Softmax
from keras_likelihood.likelihoods.parameter import Parameter

RATE = 10 / 128
START = 1e-8
_LEAST = 1e-4


class SparseNoise(Softmax, registered=False):
    """Softmax whose wrong labels are explained by a vector per example.

    Every training example has a vector s, which starts near zero and is
    learned by gradient descent. Its squares move probability from the classes
    that the network predicts to the label that was given:

        q = p + s^2 at the given label, p - s^2 at all other classes
        nll(y) = -log(q_y / sum q) + |h + s^2 - y|^2,    h = one-hot(argmax p)

    with the signs of s^2 as in q. The gradient of s is proportional to s, so
    only the vectors of examples that the network contradicts for a long time
    grow (sparse over-parametrization, SOP, Liu, Zhu, Qu and You 2022). Without
    vectors it is the cross-entropy. The second term is a prior, so the
    probabilities `exp(-nll)` do not sum to one. All other methods are those of
    `Softmax`.

    Args:
        prediction: logits, `(batch, ..., classes)`.
        temperature: divides the logits. Defaults to 1.
        noise: the vectors s, `(batch, ..., classes)`.
    """

    parameters = (
        *Softmax.parameters,
        Parameter(
            "noise",
            Identity(),
            initial=START,
            neutral=True,
            size=lambda units: units,
            rate=RATE,
            row_rule="sgd",
        ),
    )

    def nll(self, y: Tensor) -> Tensor:
        p = self.mean()
        y = self._one_hot(y, p)
        square = clip(ops.square(self.noise), 0.0, 1.0)
        label, others = square * y, square * (1 - y)
        q = clip(p + label - ops.stop_gradient(others), _LEAST, 2.0)
        nll = ops.log(ops.sum(q, axis=-1)) - ops.sum(y * ops.log(q), axis=-1)
        likeliest = ops.argmax(self.prediction, axis=-1)
        hard = ops.one_hot(likeliest, p.shape[-1], dtype=p.dtype)
        distance = ops.sum(ops.square(hard + label - others - y), axis=-1)
        # A constant for examples without a vector.
        has_vector = ops.any(ops.not_equal(self.noise, START), axis=-1)
        return nll + ops.where(has_vector, distance, 0.0)

    @staticmethod
    def _one_hot(y: Tensor, like: Tensor) -> Tensor:
        if len(y.shape) < len(like.shape):
            return ops.one_hot(
                ops.cast(y, "int32"), like.shape[-1], dtype=like.dtype
            )
        return ops.cast(y, like.dtype)
