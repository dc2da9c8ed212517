"""A loss for classes in an order."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Ordinal
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class OrdinalLoss(LikelihoodLoss):
    """Negative log-likelihood of ordered classes under a hidden score.

        P(y <= k) = 1 / (1 + exp(prediction - cut_k))

    The model predicts one score for each target, by `Dense(1)`. The loss
    learns the cut points between the classes.

    ```python
    model = kl.LikelihoodModel(inputs, keras.layers.Dense(1)(features))
    model.compile("adam", loss=kl.losses.OrdinalLoss(classes=5))
    p = model.predict_distribution(x).class_probabilities()
    ```

    Args:
        classes: how many there are, at least 3.
        gaps: distances between the cut points: a number, a tuple of
            `classes - 2` numbers, `"global"`, a `GlobalParameter`, or `None`
            (default). With `None` the head predicts them, or else the loss
            learns them.
        **options: `ignore_class`, `dimension`, `reduction`, `name` and
            `dtype` of `LikelihoodLoss`.
    """

    def __init__(self, classes: int, gaps=None, **options):
        super().__init__(Ordinal(classes), gaps=gaps, **options)

    def get_config(self):
        config = {**super().get_config(), "classes": self.likelihood.classes}
        del config["likelihood"]
        return config
