"""Scales from how well the data determine the weights."""

import math

import numpy as np

from keras_likelihood.evidence.curvature import LARGEST_MATRIX
from keras_likelihood.regularizers.rules.scale_rule import ScaleRule

_FIRST_STEP = 16
_LARGEST_MOVE = 0.5


class Evidence(ScaleRule):
    """Follows the measured Laplace evidence. It needs no held-out rows.

    The curvature of the NLL with respect to each weight is measured during
    training, at targets drawn from the model's own distribution (Immer et
    al., 2021, train by the evidence in this way). From it follow

    - `DRidge`: MacKay's fixed point (`ridge_scale`);
    - `DLasso`: Stein's unbiased estimate of the risk (`lasso_scale`);
    - `MultiLasso`, `MultiRidge`: the gain in likelihood that a weight needs
      in order to be on (`multi_lasso_scale`, `multi_ridge_scale`).

    Each move changes a scale by a factor of at most 1.65.

    The formulas take the curvature as fixed. In a deep network that
    separates its classes the curvature depends on the weights, and in front
    of a normalisation the size of a weight has no effect. Give such a network
    held-out rows, so that `HeldOut` applies.

    Reference: A. Immer, M. Bauer, V. Fortuin, G. Ratsch, M. E. Khan,
    *Scalable marginal likelihood estimation for model selection in deep
    learning*, ICML 2021.
    """

    def applies(self, site):
        return site.prior.evidence_scale is not None and site.has_curvature

    def interval(self, site):
        # The joint curvature of a small weight is inverted in each move.
        entries = math.prod(site.variable.shape)
        inverse = entries**3 // 2_000_000 if entries <= LARGEST_MATRIX else 0
        return max(16, inverse, (site.total_steps or 0) // 100)

    def scale(self, site):
        if site.step < _FIRST_STEP:
            return None
        curvature, weight, scale = site.curvature, site.weight, site.scale
        if curvature is None or not np.all(np.isfinite(weight)):
            return None
        found, freedom, precision = site.prior.evidence_scale(
            weight, scale, curvature, site.prior.num_examples
        )
        move = np.log(found) - np.log(scale)
        if not np.all(np.isfinite(move)):
            return None
        if site.share < 1:
            # The counts of several layers overlap: half of the examples.
            freedom = min(freedom, 0.5 * site.share * site.prior.num_examples)
        site.record(
            freedom=freedom, precision=np.exp(np.mean(np.log(precision)))
        )
        return scale * np.exp(np.clip(move, -_LARGEST_MOVE, _LARGEST_MOVE))
