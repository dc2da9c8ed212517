"""What the metrics of this package have in common."""

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.likelihoods import Likelihood
from keras_likelihood.likelihoods.output import distribution_of
from keras_likelihood.losses.batch import Batch


class DistributionMetric(keras.metrics.Metric):
    """A metric that judges a predicted distribution by its targets.

    In the `compile` of a `LikelihoodModel` it gets the distribution that the
    loss makes from the model's output, with all its parameters. Elsewhere it
    takes one of

    - a `Likelihood`, such as the result of `predict_distribution`;
    - `(prediction, parameter, ...)`, in the likelihood's order;
    - a prediction alone, if the missing parameters are given as numbers.

    A missing parameter is an error. Masked outcomes do not count.

    A subclass defines `update_from(distribution, y_true, weights)`.

    Args:
        likelihood: a `Likelihood` or its name; `None` (default) for that of
            the model's loss, and elsewhere `default_likelihood`.
        name, dtype: as in `keras.metrics.Metric`.
        **parameters: fixed values of parameters that the output lacks.
    """

    default_likelihood = "normal"

    def __init__(self, likelihood=None, *, name, dtype=None, **parameters):
        super().__init__(name=name, dtype=dtype)
        self._named = likelihood and likelihoods.get(likelihood)
        self.likelihood = likelihoods.get(likelihood or self.default_likelihood)
        for given in parameters:
            self.likelihood.parameter(given)
        self.parameters = parameters

    def bind(self, loss):
        """Checks that this metric can judge what a loss predicts."""
        if self._named not in (None, loss.likelihood) or self.parameters:
            named = self._named and self._named.name()
            raise ValueError(
                f"The metric {self.name} uses the distribution of the "
                f"model's loss, which is {loss.likelihood.name()} with its "
                "own parameters. Leave out `likelihood` and the parameters. "
                f"Received: likelihood={named!r}, parameters={self.parameters}"
            )

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Counts a batch.

        Args:
            y_true: targets.
            y_pred: a prediction, `(prediction, parameter, ...)`, or a
                `Likelihood`.
            sample_weight: weights of the examples or outcomes, or `None`.
        """
        distribution = self.read(y_pred)
        if isinstance(y_pred, Likelihood):
            y_pred = y_pred.prediction
        self.judge(distribution, Batch(y_pred, y_true, sample_weight))

    def judge(self, distribution: Likelihood, batch: Batch):
        """Counts a batch whose distribution is known."""
        weights = batch.weights(distribution.event_rank)
        y_true = batch.counted_target(distribution, weights)
        self.update_from(distribution, y_true, ops.cast(weights, self.dtype))

    def read(self, y_pred) -> Likelihood:
        """The distribution that is made from an output without a loss."""
        if isinstance(y_pred, Likelihood):
            return y_pred.map_values(ops.convert_to_tensor)
        return distribution_of(
            self.likelihood, y_pred, known=self.parameters, dtype=self.dtype
        )

    def update_from(self, distribution: Likelihood, y_true, weights):
        """Counts a batch of targets of a distribution.

        Targets have the rank of the prediction or of classes. The weights
        broadcast with the outcomes.
        """
        raise NotImplementedError

    def get_config(self):
        return {
            **super().get_config(),
            "likelihood": self._named and self._named.name(),
            **self.parameters,
        }


class MeanOverOutcomes(DistributionMetric):
    """The weighted mean over outcomes of what a subclass computes.

    A subclass defines `values(distribution, y_true)`.
    """

    def __init__(self, likelihood=None, **options):
        super().__init__(likelihood, **options)
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def values(self, distribution: Likelihood, y_true):
        """One value per outcome, or a tensor that broadcasts with them."""
        raise NotImplementedError

    def update_from(self, distribution, y_true, weights):
        values = ops.cast(self.values(distribution, y_true), self.dtype)
        shape = ops.shape(distribution.prediction)
        shape = shape[:-1] if distribution.event_rank else shape
        values = ops.broadcast_to(values, shape)
        weights = ops.broadcast_to(weights, shape)
        # A target of weight 0 may be anything, even NaN.
        values = ops.where(weights > 0, values, ops.zeros_like(values))
        self.total.assign_add(ops.sum(weights * values))
        self.count.assign_add(ops.sum(weights))

    def result(self):
        return ops.divide_no_nan(self.total, self.count)
