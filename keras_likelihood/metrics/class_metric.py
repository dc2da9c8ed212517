"""What the metrics of class probabilities have in common."""

import keras
from keras import ops

from keras_likelihood.likelihoods import Bernoulli, Likelihood, Softmax
from keras_likelihood.likelihoods.output import distribution_of, split_output
from keras_likelihood.metrics.distribution_metric import DistributionMetric


class ClassMetric(DistributionMetric):
    """A metric of class probabilities.

    In the `compile` of a `LikelihoodModel` the loss says what the output
    means, and its temperature is used. A `Likelihood` and
    `(logits, temperature)` can be given too. For a single output `from_logits`
    says what it means, as in Keras' own metrics. One column is the answer to a
    yes/no question.

    Args:
        from_logits: whether a single output holds logits. `None` (default) and
            `False` mean probabilities.
        name, dtype: as in `keras.metrics.Metric`.
    """

    def __init__(self, *, from_logits: bool | None = None, **options):
        super().__init__(None, **options)
        self.from_logits = from_logits

    def bind(self, loss):
        if not hasattr(loss.likelihood, "class_probabilities"):
            raise ValueError(
                f"The metric {self.name} is for classes: softmax or "
                f"bernoulli. Received: {loss.likelihood.name()}"
            )
        if self.from_logits is False:
            raise ValueError(
                f"The loss says that the model gives logits. Leave out "
                f"`from_logits` of {self.name}. Received: from_logits=False"
            )

    def read(self, y_pred) -> Likelihood:
        if isinstance(y_pred, Likelihood):
            return y_pred
        prediction, parameters = split_output(y_pred)
        prediction = ops.cast(prediction, self.dtype)
        if len(prediction.shape) == 1:
            prediction = ops.expand_dims(prediction, axis=-1)
        likelihood = Bernoulli if prediction.shape[-1] == 1 else Softmax
        if not parameters and not self.from_logits:
            prediction = as_logits(prediction, likelihood)
        output = (prediction, *parameters)
        return distribution_of(likelihood, output, dtype=self.dtype)

    def outcomes(self, distribution, y_true, weights):
        """Class numbers `(rows,)`, probabilities and weights, one row each."""
        p = ops.cast(distribution.class_probabilities(), self.dtype)
        classes = p.shape[-1]
        one_hot = distribution.event_rank and (
            len(y_true.shape) == len(p.shape) and y_true.shape[-1] == classes
        )
        if one_hot:
            y_true = ops.argmax(y_true, axis=-1)
        y_true = ops.cast(ops.reshape(y_true, (-1,)), "int32")
        weights = ops.broadcast_to(weights, ops.shape(p)[:-1])
        weights = ops.reshape(weights, (-1,))
        return y_true, ops.reshape(p, (-1, classes)), weights

    def get_config(self):
        config = super().get_config()
        del config["likelihood"]
        return {**config, "from_logits": self.from_logits}


def as_logits(p, likelihood):
    """Logits of probabilities. They are finite even for 0 and 1."""
    tiny = keras.config.epsilon()
    logs = ops.log(ops.maximum(p, tiny))
    if issubclass(likelihood, Softmax):
        return logs
    return logs - ops.log(ops.maximum(1 - p, tiny))
