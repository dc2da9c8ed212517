"""Heads and the learned parameters they are made of.

The layers of calibrated models are in `keras_likelihood.layers.serving`.
"""

from keras_likelihood.layers import serving
from keras_likelihood.layers.global_parameter import GlobalParameter
from keras_likelihood.layers.likelihood_head import LikelihoodHead
from keras_likelihood.layers.predicted_parameter import PredictedParameter
from keras_likelihood.layers.quantiles_head import QuantilesHead
from keras_likelihood.layers.robust_rho_head import RobustRhoHead
from keras_likelihood.layers.scale_head import ScaleHead
from keras_likelihood.layers.temperature_head import TemperatureHead

__all__ = [
    "GlobalParameter",
    "LikelihoodHead",
    "PredictedParameter",
    "QuantilesHead",
    "RobustRhoHead",
    "ScaleHead",
    "TemperatureHead",
    "serving",
]
