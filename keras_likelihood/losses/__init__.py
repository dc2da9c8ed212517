"""Negative log-likelihoods as Keras losses."""

from keras_likelihood.losses.bernoulli_loss import BernoulliLoss
from keras_likelihood.losses.beta_loss import BetaLoss
from keras_likelihood.losses.exponential_loss import ExponentialLoss
from keras_likelihood.losses.gamma_loss import GammaLoss
from keras_likelihood.losses.huber_loss import HuberLoss
from keras_likelihood.losses.laplace_loss import LaplaceLoss
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss
from keras_likelihood.losses.log_normal_loss import LogNormalLoss
from keras_likelihood.losses.logistic_loss import LogisticLoss
from keras_likelihood.losses.multivariate_normal_loss import (
    MultivariateNormalLoss,
)
from keras_likelihood.losses.multivariate_student_t_loss import (
    MultivariateStudentTLoss,
)
from keras_likelihood.losses.negative_binomial_loss import NegativeBinomialLoss
from keras_likelihood.losses.noisy_labels_loss import NoisyLabelsLoss
from keras_likelihood.losses.normal_loss import NormalLoss
from keras_likelihood.losses.ordinal_loss import OrdinalLoss
from keras_likelihood.losses.poisson_loss import PoissonLoss
from keras_likelihood.losses.quantiles_loss import QuantilesLoss
from keras_likelihood.losses.robust_rho_loss import RobustRhoLoss
from keras_likelihood.losses.softmax_loss import SoftmaxLoss
from keras_likelihood.losses.student_t_loss import StudentTLoss
from keras_likelihood.losses.von_mises_loss import VonMisesLoss
from keras_likelihood.losses.weibull_loss import WeibullLoss
from keras_likelihood.losses.zero_inflated_loss import ZeroInflatedLoss

__all__ = [
    "MultivariateNormalLoss",
    "MultivariateStudentTLoss",
    "BernoulliLoss",
    "BetaLoss",
    "ExponentialLoss",
    "GammaLoss",
    "HuberLoss",
    "LaplaceLoss",
    "LikelihoodLoss",
    "LocationScaleLoss",
    "LogNormalLoss",
    "LogisticLoss",
    "NegativeBinomialLoss",
    "NoisyLabelsLoss",
    "NormalLoss",
    "OrdinalLoss",
    "PoissonLoss",
    "QuantilesLoss",
    "RobustRhoLoss",
    "SoftmaxLoss",
    "StudentTLoss",
    "VonMisesLoss",
    "WeibullLoss",
    "ZeroInflatedLoss",
]
