"""Models that train the parameters of their losses."""

from keras_likelihood.models.likelihood_model import LikelihoodModel

__all__ = ["LikelihoodModel"]
