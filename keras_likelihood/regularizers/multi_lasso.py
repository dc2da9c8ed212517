"""L1 regularization with a learned strength for every weight."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.regularizers.d_lasso import DLasso


@serializable
class MultiLasso(DLasso):
    """L1 with a learned scale `b_j` for every weight.

        penalty = sum_j (|w_j| / b_j + log(2 b_j)) / num_examples

    Large weights get wide priors and are hardly shrunk. The others are
    switched off.

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

    def get_config(self):
        config = super().get_config()
        del config["group"]
        return config
