"""Negative log-likelihoods as Keras losses."""

from keras_likelihood.losses.bernoulli_loss import BernoulliLoss
from keras_likelihood.losses.laplace_loss import LaplaceLoss
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss
from keras_likelihood.losses.normal_loss import NormalLoss
from keras_likelihood.losses.robust_rho_loss import RobustRhoLoss
from keras_likelihood.losses.softmax_loss import SoftmaxLoss
from keras_likelihood.losses.student_t_loss import StudentTLoss

__all__ = [
    "BernoulliLoss",
    "LaplaceLoss",
    "LikelihoodLoss",
    "LocationScaleLoss",
    "NormalLoss",
    "RobustRhoLoss",
    "SoftmaxLoss",
    "StudentTLoss",
]
