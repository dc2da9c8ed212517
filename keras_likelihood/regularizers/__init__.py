"""L1 and L2 regularizers whose strength is learned with the weights."""

from keras_likelihood.regularizers.adaptive_regularizer import (
    AdaptiveRegularizer,
)
from keras_likelihood.regularizers.d_lasso import DLasso
from keras_likelihood.regularizers.d_ridge import DRidge
from keras_likelihood.regularizers.learn_scales import LearnScales
from keras_likelihood.regularizers.multi_lasso import MultiLasso
from keras_likelihood.regularizers.multi_ridge import MultiRidge
from keras_likelihood.regularizers.pruning import adaptive_weights, prune
from keras_likelihood.regularizers.report import report
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
