"""L1 and L2 regularizers that learn their strength with the weights."""

from keras_likelihood.regularizers.adaptive_regularizer import (
    AdaptiveRegularizer,
)
from keras_likelihood.regularizers.d_lasso import DLasso
from keras_likelihood.regularizers.d_ridge import DRidge
from keras_likelihood.regularizers.learned_noise import bind_noise
from keras_likelihood.regularizers.measured_curvature import (
    MeasuredCurvature,
)
from keras_likelihood.regularizers.multi_lasso import MultiLasso
from keras_likelihood.regularizers.multi_ridge import MultiRidge
from keras_likelihood.regularizers.pruning import adaptive_weights, prune
from keras_likelihood.regularizers.report import report

__all__ = [
    "AdaptiveRegularizer",
    "DLasso",
    "DRidge",
    "MeasuredCurvature",
    "MultiLasso",
    "MultiRidge",
    "adaptive_weights",
    "bind_noise",
    "prune",
    "report",
]
