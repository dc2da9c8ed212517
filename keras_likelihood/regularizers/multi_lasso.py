"""L1 regularization with a learned strength for every weight."""

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.regularizers.d_lasso import DLasso
from keras_likelihood.regularizers.evidence import (
    price_of_a_weight,
    sparse_evidence,
)
from keras_likelihood.regularizers.measured_evidence import (
    measured_sparse_evidence,
)


@serializable
class MultiLasso(DLasso):
    """L1 with a learned scale `b_j` for every weight.

        penalty = sum_j (|w_j| / b_j + log(2 b_j)) / num_examples

    Large weights get wide priors and are hardly shrunk. The others are
    switched off. An inverse-gamma hyper-prior on each scale keeps it from
    shrinking to zero with its weight,

        b_j = (|w_j| + c) / A,    A = T^2,    c = T / sqrt(h)

    `T^2` is the gain in log-likelihood that a weight needs to be on (see
    `evidence.price_of_a_weight`). It is learned from the weights too. With
    this `c` a weight can leave zero without a jump, so the result does not
    depend on the start of the training.

    ```python
    keras.layers.Dense(
        1, kernel_regularizer=kl.regularizers.MultiLasso(num_examples=500)
    )
    ```

    Args:
        num_examples: number of likelihood terms that the loss averages over.
        **options: those of `AdaptiveRegularizer` except `group`.
    """

    def __init__(self, *, num_examples: float, **options):
        super().__init__(num_examples=num_examples, group="weight", **options)

    def evidence(self, weight, scale, noise):
        return sparse_evidence(
            weight, noise, self.num_examples, self._gain(weight)
        )

    def measured_evidence(self, weight, scale, noise, curvature):
        return measured_sparse_evidence(weight, curvature, noise)

    def target_scale(self, weight, scale, evidence):
        price = price_of_a_weight(weight, evidence)
        least = ops.sqrt(price / evidence.precision)
        return (ops.abs(weight) + least) / price

    def get_config(self):
        config = super().get_config()
        del config["group"]
        return config
