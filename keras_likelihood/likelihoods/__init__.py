"""Distributions of the target, one file each."""

from keras_likelihood.likelihoods.bernoulli import Bernoulli
from keras_likelihood.likelihoods.laplace import Laplace
from keras_likelihood.likelihoods.likelihood import Likelihood, get
from keras_likelihood.likelihoods.location_scale import LocationScale
from keras_likelihood.likelihoods.normal import Normal
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Parametrized
from keras_likelihood.likelihoods.robust_rho import RobustRho
from keras_likelihood.likelihoods.softmax import Softmax
from keras_likelihood.likelihoods.student_t import StudentT
from keras_likelihood.likelihoods.wrapper import Wrapper

__all__ = [
    "Bernoulli",
    "Laplace",
    "Likelihood",
    "LocationScale",
    "Normal",
    "Parameter",
    "Parametrized",
    "RobustRho",
    "Softmax",
    "StudentT",
    "Wrapper",
    "get",
]
