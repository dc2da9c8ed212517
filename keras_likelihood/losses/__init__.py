"""Negative log-likelihoods as Keras losses."""

from keras_likelihood.losses import named_losses
from keras_likelihood.losses.crps import CRPS
from keras_likelihood.losses.likelihood_loss import (
    LikelihoodLoss,
    LocationScaleLoss,
)
from keras_likelihood.losses.named_losses import *  # noqa: F403
from keras_likelihood.losses.noisy_labels_loss import NoisyLabelsLoss
from keras_likelihood.losses.weighted import Weighted

__all__ = ["CRPS", "LikelihoodLoss", "LocationScaleLoss", "NoisyLabelsLoss"]
__all__ += ["Weighted", *named_losses.__all__]
