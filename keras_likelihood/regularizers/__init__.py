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
from keras_likelihood.regularizers.rules import Evidence, HeldOut, ScaleRule
from keras_likelihood.regularizers.site import Site

__all__ = [
    "AdaptiveRegularizer",
    "DLasso",
    "DRidge",
    "Evidence",
    "HeldOut",
    "LearnScales",
    "MultiLasso",
    "MultiRidge",
    "ScaleRule",
    "Site",
    "adaptive_weights",
    "prune",
    "report",
]
