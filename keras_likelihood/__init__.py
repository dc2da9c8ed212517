"""Your loss should be a likelihood: likelihood parameters for Keras 3."""

from keras_likelihood import (
    constraints,
    data_parameters,
    layers,
    likelihoods,
    losses,
    models,
)
from keras_likelihood.data_parameters import DataParameter, indexed
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.version import __version__

__all__ = [
    "DataParameter",
    "LikelihoodModel",
    "__version__",
    "constraints",
    "data_parameters",
    "indexed",
    "layers",
    "likelihoods",
    "losses",
    "models",
]
