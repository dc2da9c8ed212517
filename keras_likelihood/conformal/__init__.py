"""Conformal prediction: sets and intervals with guaranteed coverage.

Models with sets and intervals load without SciPy, which `ConformalSets` and
`ConformalIntervals` need.
"""

import importlib
from typing import TYPE_CHECKING, Any

from keras_likelihood.backend.extras import extras_for
from keras_likelihood.conformal.adaptive import AdaptiveIntervals
from keras_likelihood.conformal.models import (
    ConformalClassifier,
    ConformalRegressor,
)
from keras_likelihood.conformal.prediction import ConformalDistribution

if TYPE_CHECKING:
    from keras_likelihood.conformal.conformal_intervals import (
        ConformalIntervals,
    )
    from keras_likelihood.conformal.conformal_sets import ConformalSets

__all__ = [
    "AdaptiveIntervals",
    "ConformalClassifier",
    "ConformalDistribution",
    "ConformalIntervals",
    "ConformalRegressor",
    "ConformalSets",
]

_NEED_SCIPY = {
    "ConformalIntervals": "conformal_intervals",
    "ConformalSets": "conformal_sets",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_SCIPY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with extras_for(f"kl.conformal.{name}"):
        module = importlib.import_module(f"{__name__}.{_NEED_SCIPY[name]}")
    return getattr(module, name)
