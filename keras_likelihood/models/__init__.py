"""Models that train their likelihoods."""

from keras_likelihood.models.likelihood_model import LikelihoodModel

__all__ = ["LikelihoodModel"]
