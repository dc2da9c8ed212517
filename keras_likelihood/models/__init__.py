"""Likelihood models, ensembles and calibrated models."""

from keras_likelihood.backend.processes import joint_training
from keras_likelihood.likelihoods.mixture import EnsembleDistribution
from keras_likelihood.models.calibrated_models import (
    ConformalClassifier,
    ConformalRegressor,
    RecalibratedRegressor,
)
from keras_likelihood.models.ensemble import Ensemble
from keras_likelihood.models.likelihood_model import LikelihoodModel

__all__ = [
    "ConformalClassifier",
    "ConformalRegressor",
    "Ensemble",
    "EnsembleDistribution",
    "LikelihoodModel",
    "RecalibratedRegressor",
    "joint_training",
]
