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
from keras_likelihood.regularizers.rules import (
    HeldOut,
    Measurement,
    ScaleRule,
)

__all__ = [
    "AdaptiveRegularizer",
    "DLasso",
    "DRidge",
    "HeldOut",
    "LearnScales",
    "Measurement",
    "MultiLasso",
    "MultiRidge",
    "ScaleRule",
    "adaptive_weights",
    "prune",
    "report",
]
