"""Ensembles of models, and of members within one network."""

from keras_likelihood.ensembles.ensemble import Ensemble
from keras_likelihood.ensembles.member_networks import MemberNetworks
from keras_likelihood.likelihoods.mixture import EnsembleDistribution

__all__ = ["Ensemble", "EnsembleDistribution", "MemberNetworks"]
