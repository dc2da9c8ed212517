"""Rules that choose the scales of priors, one file each."""

from keras_likelihood.regularizers.rules.evidence import Evidence
from keras_likelihood.regularizers.rules.held_out import HeldOut
from keras_likelihood.regularizers.rules.scale_rule import ScaleRule

__all__ = ["Evidence", "HeldOut", "ScaleRule"]
