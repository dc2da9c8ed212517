"""L2 regularization with a learned strength for every weight."""

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.regularizers.d_ridge import DRidge
from keras_likelihood.regularizers.evidence import price_of_a_weight


@serializable
class MultiRidge(DRidge):
    """L2 with a learned scale `s_j` for every weight.

        penalty = sum_j (w_j^2 / (2 s_j^2) + log(s_j) + log(2 pi) / 2)
                  / num_examples

    It is like `MultiLasso` with a normal prior. Weights that the data do not
    need are shrunk by a factor of nine and not to zero, and

        s_j^2 = (w_j^2 + c^2) / A,    A = T^2 / 4,    c^2 = A / (8 h)

    `T^2` is the gain in log-likelihood that a weight needs to be on. This `c`
    is the smallest with which a weight can leave zero without a jump.

    ```python
    keras.layers.Dense(
        1, kernel_regularizer=kl.regularizers.MultiRidge(num_examples=500)
    )
    ```

    Args:
        num_examples: number of likelihood terms that the loss averages over.
        **options: those of `AdaptiveRegularizer` except `group`.
    """

    def __init__(self, *, num_examples: float, **options):
        super().__init__(num_examples=num_examples, group="weight", **options)

    def target_scale(self, weight, scale, evidence):
        price = ops.maximum(0.25 * price_of_a_weight(weight, evidence), 1.0)
        least = price / (8.0 * evidence.precision)
        return ops.sqrt((ops.square(weight) + least) / price)

    def get_config(self):
        config = super().get_config()
        del config["group"]
        return config
