"""Your loss should be a likelihood: likelihood parameters for Keras 3."""

import importlib
from typing import Any

from keras_likelihood.after_keras import IN_FILES, import_after_keras
from keras_likelihood.backend.extras import extras_for
from keras_likelihood.version import __version__ as __version__

_SUBPACKAGES = (
    *(name for name in IN_FILES if "." not in name),
    "auditing",
    "comparison",
    "diagnosis",
    "laplace",
    "outliers",
    "plots",
    "recalibration",
    "robust",
    "tabular",
)

_SHORT_NAMES = {
    "DataParameter": "data_parameters",
    "Ensemble": "ensembles",
    "FileError": "backend.files",
    "LikelihoodModel": "models",
    "audit": "auditing.audit",
    "censored": "likelihoods.censored",
    "compare": "comparison",
    "diagnose": "diagnosis",
    "indexed": "data_parameters",
}
"""Top-level classes and functions, with the module of each."""

__all__ = sorted([*_SUBPACKAGES, *_SHORT_NAMES, "__version__"])

import_after_keras()


def __getattr__(name: str) -> Any:
    if name not in _SUBPACKAGES and name not in _SHORT_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = f"{__name__}.{_SHORT_NAMES.get(name, name)}"
    with extras_for(f"kl.{name}"):
        module = importlib.import_module(place)
    return getattr(module, name) if name in _SHORT_NAMES else module


def __dir__() -> list[str]:
    return [*__all__, *(n for n in globals() if n.startswith("__"))]
