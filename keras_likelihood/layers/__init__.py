"""Heads and their parameter layers.

The layers of calibrated models are in `keras_likelihood.layers.serving`.
"""

from keras_likelihood.layers import serving
from keras_likelihood.layers.likelihood_head import (
    LikelihoodHead,
    QuantilesHead,
    RobustRhoHead,
    ScaleHead,
    TemperatureHead,
)
from keras_likelihood.layers.member_networks import MemberNetworks
from keras_likelihood.layers.parameter_layers import (
    GlobalParameter,
    PredictedParameter,
)
from keras_likelihood.layers.table_features import TableFeatures

__all__ = [
    "GlobalParameter",
    "LikelihoodHead",
    "MemberNetworks",
    "PredictedParameter",
    "QuantilesHead",
    "RobustRhoHead",
    "ScaleHead",
    "TableFeatures",
    "TemperatureHead",
    "serving",
]
