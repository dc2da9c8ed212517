"""Negative log-likelihoods as Keras losses."""

from keras_likelihood.losses import named_losses
from keras_likelihood.losses.crps import CRPS
from keras_likelihood.losses.named_losses import *  # noqa: F403

__all__ = ["CRPS", *named_losses.__all__]
