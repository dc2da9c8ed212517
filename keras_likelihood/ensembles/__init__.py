"""Ensembles of models, and of members within one network."""

from keras_likelihood.ensembles.ensemble import Ensemble
from keras_likelihood.ensembles.ensemble_distribution import (
    EnsembleDistribution,
)
from keras_likelihood.ensembles.member_networks import MemberNetworks

__all__ = ["Ensemble", "EnsembleDistribution", "MemberNetworks"]
