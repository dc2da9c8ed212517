"""Distributions of the target."""

from keras_likelihood.likelihoods.beta import Beta
from keras_likelihood.likelihoods.censored import Censored
from keras_likelihood.likelihoods.classes import Bernoulli, Ordinal, Softmax
from keras_likelihood.likelihoods.counts import (
    CountLikelihood,
    NegativeBinomial,
    Poisson,
    ZeroInflated,
)
from keras_likelihood.likelihoods.likelihood import Likelihood, get
from keras_likelihood.likelihoods.location_scale import (
    Huber,
    Laplace,
    LocationScale,
    Logistic,
    Normal,
    StudentT,
)
from keras_likelihood.likelihoods.mixture import Mixture
from keras_likelihood.likelihoods.multivariate import (
    Multivariate,
    MultivariateNormal,
    MultivariateStudentT,
)
from keras_likelihood.likelihoods.noisy_labels import NoisyLabels, SparseNoise
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Parametrized, Wrapper
from keras_likelihood.likelihoods.positive import (
    Exponential,
    Gamma,
    LogNormal,
    PositiveLikelihood,
    Weibull,
)
from keras_likelihood.likelihoods.quantiles import Quantiles
from keras_likelihood.likelihoods.robust_rho import RobustRho
from keras_likelihood.likelihoods.transformed import BoxCox, Transformed
from keras_likelihood.likelihoods.truncated import Rounded, Truncated
from keras_likelihood.likelihoods.von_mises import VonMises

__all__ = [
    "Bernoulli",
    "Beta",
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
    "SparseNoise",
    "StudentT",
    "Transformed",
    "Truncated",
    "VonMises",
    "Weibull",
    "Wrapper",
    "ZeroInflated",
    "get",
]
