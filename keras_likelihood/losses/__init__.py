"""Negative log-likelihoods as Keras losses."""

from keras_likelihood.losses import named_losses
from keras_likelihood.losses.crps import CRPS
from keras_likelihood.losses.named_losses import *  # noqa: F403
from keras_likelihood.losses.sparse_noise_loss import SparseNoiseLoss

__all__ = ["CRPS", "SparseNoiseLoss", *named_losses.__all__]
