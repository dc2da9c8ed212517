"""L1 and L2 regularizers whose strength is learned with the weights."""

from keras_likelihood.regularizers.adaptive_regularizer import (
    AdaptiveRegularizer,
)
from keras_likelihood.regularizers.learn_scales import LearnScales
from keras_likelihood.regularizers.priors import (
    DLasso,
    DRidge,
    MultiLasso,
    MultiRidge,
)
from keras_likelihood.regularizers.report import adaptive_weights, prune, report

__all__ = [
    "AdaptiveRegularizer",
    "DLasso",
    "DRidge",
    "LearnScales",
    "MultiLasso",
    "MultiRidge",
    "adaptive_weights",
    "prune",
    "report",
]
