"""Your loss should be a likelihood: likelihood parameters for Keras 3."""

import importlib

from keras_likelihood.extras import how_to_install
from keras_likelihood.own_command import is_own_command
from keras_likelihood.version import __version__

if not is_own_command():
    from keras_likelihood import (
        constraints,
        data_parameters,
        layers,
        likelihoods,
        losses,
        metrics,
        models,
        regularizers,
    )
    from keras_likelihood.data_parameters import DataParameter, indexed
    from keras_likelihood.likelihoods.censored_targets import censored
    from keras_likelihood.models import Ensemble, LikelihoodModel

_ON_DEMAND = (
    "auditing",
    "comparison",
    "diagnosis",
    "outliers",
    "plots",
    "recalibration",
    "robust",
)
"""Subpackages that are imported when they are first used. Few programs need
them, or they need extras.
"""

_FUNCTIONS = {
    "audit": "auditing",
    "compare": "comparison",
    "diagnose": "diagnosis",
}
"""Functions of these subpackages. The value is the name of the subpackage."""

__all__ = [
    "DataParameter",
    "Ensemble",
    "LikelihoodModel",
    "__version__",
    "audit",
    "auditing",
    "censored",
    "compare",
    "comparison",
    "constraints",
    "data_parameters",
    "diagnose",
    "diagnosis",
    "indexed",
    "layers",
    "likelihoods",
    "losses",
    "metrics",
    "models",
    "outliers",
    "plots",
    "recalibration",
    "regularizers",
    "robust",
]


def __getattr__(name):
    if name not in _ON_DEMAND and name not in _FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = f"{__name__}.{_FUNCTIONS.get(name, name)}"
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as error:
        if advice := how_to_install(error):
            raise ModuleNotFoundError(
                f"kl.{name} {advice}", name=error.name
            ) from error
        raise
    return getattr(module, name) if name in _FUNCTIONS else module
