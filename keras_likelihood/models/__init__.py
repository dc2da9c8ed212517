"""Models that train their likelihoods, and models made from them."""

from keras_likelihood.backend.processes import joint_training
from keras_likelihood.likelihoods.ensemble_distribution import (
    EnsembleDistribution,
)
from keras_likelihood.models.conformal_classifier import ConformalClassifier
from keras_likelihood.models.conformal_regressor import ConformalRegressor
from keras_likelihood.models.ensemble import Ensemble
from keras_likelihood.models.likelihood_model import LikelihoodModel
from keras_likelihood.models.recalibrated_regressor import (
    RecalibratedRegressor,
)

__all__ = [
    "ConformalClassifier",
    "ConformalRegressor",
    "Ensemble",
    "EnsembleDistribution",
    "LikelihoodModel",
    "RecalibratedRegressor",
    "joint_training",
]
