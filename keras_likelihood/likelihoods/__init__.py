"""Distributions of the target, one in each file."""

from keras_likelihood.likelihoods.bernoulli import Bernoulli
from keras_likelihood.likelihoods.beta import Beta
from keras_likelihood.likelihoods.bijector import Bijector, BoxCox
from keras_likelihood.likelihoods.censored import Censored
from keras_likelihood.likelihoods.count_likelihood import CountLikelihood
from keras_likelihood.likelihoods.exponential import Exponential
from keras_likelihood.likelihoods.gamma import Gamma
from keras_likelihood.likelihoods.huber import Huber
from keras_likelihood.likelihoods.laplace import Laplace
from keras_likelihood.likelihoods.likelihood import Likelihood, get
from keras_likelihood.likelihoods.location_scale import LocationScale
from keras_likelihood.likelihoods.log_normal import LogNormal
from keras_likelihood.likelihoods.logistic import Logistic
from keras_likelihood.likelihoods.mixture import Mixture
from keras_likelihood.likelihoods.multivariate import Multivariate
from keras_likelihood.likelihoods.multivariate_normal import MultivariateNormal
from keras_likelihood.likelihoods.multivariate_student_t import (
    MultivariateStudentT,
)
from keras_likelihood.likelihoods.negative_binomial import NegativeBinomial
from keras_likelihood.likelihoods.noisy_labels import NoisyLabels
from keras_likelihood.likelihoods.normal import Normal
from keras_likelihood.likelihoods.ordinal import Ordinal
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Parametrized
from keras_likelihood.likelihoods.poisson import Poisson
from keras_likelihood.likelihoods.positive_likelihood import PositiveLikelihood
from keras_likelihood.likelihoods.quantiles import Quantiles
from keras_likelihood.likelihoods.robust_rho import RobustRho
from keras_likelihood.likelihoods.rounded import Rounded
from keras_likelihood.likelihoods.softmax import Softmax
from keras_likelihood.likelihoods.student_t import StudentT
from keras_likelihood.likelihoods.transformed import Transformed
from keras_likelihood.likelihoods.truncated import Truncated
from keras_likelihood.likelihoods.von_mises import VonMises
from keras_likelihood.likelihoods.weibull import Weibull
from keras_likelihood.likelihoods.wrapper import Wrapper
from keras_likelihood.likelihoods.zero_inflated import ZeroInflated

__all__ = [
    "Bernoulli",
    "Beta",
    "Bijector",
    "BoxCox",
    "Censored",
    "CountLikelihood",
    "Exponential",
    "Gamma",
    "Huber",
    "Laplace",
    "Likelihood",
    "LocationScale",
    "LogNormal",
    "Logistic",
    "Mixture",
    "Multivariate",
    "MultivariateNormal",
    "MultivariateStudentT",
    "NegativeBinomial",
    "NoisyLabels",
    "Normal",
    "Ordinal",
    "Parameter",
    "Parametrized",
    "Poisson",
    "PositiveLikelihood",
    "Quantiles",
    "RobustRho",
    "Rounded",
    "Softmax",
    "StudentT",
    "Transformed",
    "Truncated",
    "VonMises",
    "Weibull",
    "Wrapper",
    "ZeroInflated",
    "get",
]
