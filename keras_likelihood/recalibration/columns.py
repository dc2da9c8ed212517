"""The columns from which temperatures and maps are predicted."""

import numpy as np
from scipy.special import log_softmax

from keras_likelihood.recalibration.feature_basis import FeatureBasis

SOURCES = {
    None: (),
    "logits": ("logits",),
    "features": ("features",),
    "all": ("logits", "sorted", "features"),
}
"""The groups of columns of each kind of predicted temperature."""


class Columns:
    """Standardised columns of the logits and of the features, by group.

    The bases do not depend on labels. So all folds of a cross-validation share
    them, and each row is projected once.

    Args:
        groups: names among `"logits"`, `"sorted"` and `"features"`.
        z: logits after GlobalScaling, `(rows, classes)`.
        features: `(rows, columns)`. With `None` this group is left out.
        weight: `(rows,)`, or `None`.
    """

    def __init__(self, groups, z, features, weight):
        self.groups = tuple(
            name
            for name in groups
            if name != "features" or features is not None
        )
        self.bases = {
            name: FeatureBasis(raw, weight)
            for name, raw in raw_columns(self.groups, z, features).items()
        }

    def __call__(self, z, features):
        """Returns a dict of group names to `(rows, components)`."""
        raw = raw_columns(self.groups, z, features)
        return {name: self.bases[name](x) for name, x in raw.items()}


def raw_columns(groups, z, features):
    """The columns of each group, not standardised."""
    found = {}
    if "logits" in groups or "sorted" in groups:
        # A constant added to a row must not change the result, as in a
        # softmax.
        logs = log_softmax(z, axis=1)
    for name in groups:
        if name == "logits":
            found[name] = logs
        elif name == "sorted":
            found[name] = np.sort(logs, axis=1)
        else:
            found[name] = features
    return found


def rows_of(columns, index):
    """Some rows of every group."""
    return {name: x[index] for name, x in columns.items()}
