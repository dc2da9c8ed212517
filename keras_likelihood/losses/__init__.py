"""Negative log-likelihoods as Keras losses."""

from keras_likelihood.losses import named_losses
from keras_likelihood.losses.named_losses import *  # noqa: F403

__all__ = named_losses.__all__
