"""The loss of several models that are trained side by side."""

import keras
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods.ensemble_distribution import (
    EnsembleDistribution,
)
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss


@serializable
class EnsembleLoss(LikelihoodLoss):
    """Trains every member of an ensemble by its own loss.

        value    = mean over members of loss_j
        gradient = sum over members of the gradient of loss_j

    So each member is trained as if it were alone. The value is not the NLL of
    the mixture, which is lower. The parameters of the loss are given by name,
    for all members. By default they are those of `loss`.
    """

    def __init__(self, loss, members: int, **parameters):
        if isinstance(loss, dict):
            loss = keras.saving.deserialize_keras_object(loss)
        if loss.data_parameters:
            raise ValueError(
                "The members of an ensemble cannot share a DataParameter. "
                "Train them one by one as `LikelihoodModel`s and join them by "
                "`kl.Ensemble.from_members`. "
                f"Received: {sorted(loss.data_parameters)} as data parameters"
            )
        parameters = parameters or given_parameters(loss, members)
        super().__init__(
            EnsembleDistribution(loss.likelihood, components=members),
            dimension=loss.dimension,
            reduction=loss.reduction,
            name=loss.name,
            dtype=loss.dtype,
            **parameters,
        )
        self.loss = loss
        self.members = members
        self.ignore_class = loss.ignore_class

    def outcome_losses(self, distribution, y_true, weights):
        losses_of, members = self.loss.outcome_losses, distribution.members
        mean = sum(losses_of(m, y_true, weights) for m in members)
        mean = mean / self.members
        # This adds the gradient of the other members, and 0 to the value.
        return mean + (self.members - 1) * (mean - ops.stop_gradient(mean))

    def get_config(self):
        return {
            "loss": keras.saving.serialize_keras_object(self.loss),
            "members": self.members,
            **self._parameter_config(),
        }


def given_parameters(loss, members: int, alone: bool = False) -> dict:
    """Parameters of the loss of one member, made for all members.

    If the members predict no parameters (`alone`), the loss learns those that
    were left out.
    """
    config = loss.get_config()
    given = {p.name: config[p.name] for p in loss.likelihood.parameters}
    for name, value in given.items():
        if value is None and alone:
            given[name] = "global"
        elif isinstance(value, list | tuple):
            given[name] = tuple(value) * members
    return given
