"""Says in plain words what went wrong with a likelihood parameter."""

from keras_likelihood.diagnosis.diagnose import diagnose
from keras_likelihood.diagnosis.diagnosis import Diagnosis, Finding

__all__ = ["Diagnosis", "Finding", "diagnose"]
