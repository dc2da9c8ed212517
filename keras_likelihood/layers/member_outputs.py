"""The outputs of several models as one."""

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods.output import names_in_output, split_output


@serializable
class MemberOutputs(keras.Layer):
    """Joins the outputs of the members of an ensemble.

    The output is `(prediction, member, parameter, ...)`, as
    `EnsembleDistribution` needs it: the mean prediction, then the predictions
    and the parameters of all members, one member after the other on the last
    axis. The mean of logits is that of the probabilities, if the likelihood is
    given.
    """

    def __init__(self, likelihood=None, **kwargs):
        super().__init__(**{"dtype": keras.config.floatx(), **kwargs})
        self.likelihood = likelihood and likelihoods.get(likelihood)
        self.supports_masking = True

    def call(self, outputs):
        members = [split_output(output) for output in outputs]
        predictions = [prediction for prediction, _ in members]
        beside = list(zip(*(values for _, values in members), strict=True))
        return (
            self._pooled(predictions, beside),
            *(ops.concatenate(v, axis=-1) for v in (predictions, *beside)),
        )

    def _pooled(self, predictions, beside):
        if not hasattr(self.likelihood, "pooled_prediction"):
            return sum(predictions) / len(predictions)
        names = names_in_output(self.likelihood, (), len(beside))
        values = {
            name: ops.stack(value, axis=-2)
            for name, value in zip(names, beside, strict=True)
        }
        logits = ops.stack(predictions, axis=-2)
        return self.likelihood(logits, **values).pooled_prediction(axis=-2)

    def compute_mask(self, inputs, previous_mask):
        """The mask of the first member, for the prediction alone."""
        mask = previous_mask[0]
        if mask is not None:
            mask, _ = split_output(mask)
        _, beside = split_output(inputs[0])
        return (mask, None, *(None for _ in beside))

    def get_config(self):
        name = self.likelihood and self.likelihood.name()
        return {**super().get_config(), "likelihood": name}
