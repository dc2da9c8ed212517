"""Chooses the likelihood of a target."""

from typing import Any

import numpy as np
from scipy import stats

from keras_likelihood import likelihoods
from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods import Likelihood

REASONS = {
    "student_t": "real numbers",
    "negative_binomial": "counts that include zeros",
    "log_normal": "positive numbers over several orders of magnitude",
    "beta": "shares strictly between 0 and 1",
    "softmax": "classes",
    "ordinal": "classes with an order",
}
"""Why a likelihood was chosen, for the summary."""


_CENTRAL = 0.03, 0.97
"""Quantiles between which targets decide about their likelihood."""


def likelihood_of(y: np.ndarray) -> str:
    """Name of the likelihood for targets `(n,)`; see `REASONS`."""
    is_whole = np.all(y == np.round(y))
    if is_whole and y.min() == 0 and y.max() >= 2 and np.median(y) <= 10:
        return "negative_binomial"
    if y.min() > 0 and y.max() < 1:
        return "beta"
    # A few wrong targets must not change the likelihood.
    low, high = np.quantile(y, _CENTRAL)
    if low > 0 and high > 30 * low and y.min() > 0:
        kept = y[(low <= y) & (y <= high)]
        if abs(stats.skew(np.log(kept))) < 0.5 * abs(stats.skew(kept)):
            return "log_normal"
    return "student_t"


def checked_likelihood(likelihood: Any, y: Array) -> type[Likelihood]:
    """The likelihood of an estimator, after a check of its targets."""
    found = likelihoods.get(likelihood or likelihood_of(y))
    has_range = issubclass(found, likelihoods.LocationScale) or (
        found.prediction_constraint is not None
    )
    simple = all(p.size is None for p in found.parameters)
    if found.event_rank or not has_range or not simple:
        raise ValueError(
            "`likelihood` must be a distribution of a single number with "
            "scalar parameters, such as 'student_t', 'normal', 'log_normal', "
            f"'gamma', 'poisson' or 'beta'. Received: {found.name()!r}"
        )
    found.check_targets(y[:, None], (None, 1))
    return found


def describe_likelihood(estimator: Any) -> str:
    """The likelihood of a fitted estimator and its reason, in words."""
    name = estimator.likelihood_.name().partition("(")[0]
    if getattr(estimator, "likelihood", None) is not None:
        return f"{estimator.likelihood_.name()} (given)"
    return f"{name} ({REASONS[name]})"
