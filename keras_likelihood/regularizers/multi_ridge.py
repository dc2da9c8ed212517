"""L2 regularization with a learned strength for every weight."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.regularizers.d_ridge import DRidge


@serializable
class MultiRidge(DRidge):
    """L2 with a learned scale `s_j` for every weight.

        penalty = sum_j (w_j^2 / (2 s_j^2) + log(s_j) + log(2 pi) / 2)
                  / num_examples

    Large weights get wide priors and are hardly shrunk. Weights that the data
    do not need are shrunk by a factor of nine, but not to zero.

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

    def get_config(self):
        config = super().get_config()
        del config["group"]
        return config
