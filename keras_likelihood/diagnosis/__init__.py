"""Diagnoses problems of likelihood parameters."""

from keras_likelihood.diagnosis.diagnose import diagnose
from keras_likelihood.diagnosis.diagnosis import Diagnosis, Finding

__all__ = ["Diagnosis", "Finding", "diagnose"]
