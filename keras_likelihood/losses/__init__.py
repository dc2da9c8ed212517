"""Negative log-likelihoods as Keras losses."""

from keras_likelihood.losses.classes import (
    BernoulliLoss,
    NoisyLabelsLoss,
    OrdinalLoss,
    SoftmaxLoss,
)
from keras_likelihood.losses.counts import (
    NegativeBinomialLoss,
    PoissonLoss,
    ZeroInflatedLoss,
)
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.losses.location_scale_loss import LocationScaleLoss
from keras_likelihood.losses.positive_numbers import (
    BetaLoss,
    ExponentialLoss,
    GammaLoss,
    LogNormalLoss,
    WeibullLoss,
)
from keras_likelihood.losses.real_numbers import (
    HuberLoss,
    LaplaceLoss,
    LogisticLoss,
    NormalLoss,
    RobustRhoLoss,
    StudentTLoss,
)
from keras_likelihood.losses.vectors import (
    MultivariateNormalLoss,
    MultivariateStudentTLoss,
    QuantilesLoss,
    VonMisesLoss,
)

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
