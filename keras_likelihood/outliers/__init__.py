"""Outlier detectors that use predicted scales and temperatures."""

from keras_likelihood.outliers.auto import AutoDetector
from keras_likelihood.outliers.detector import OutlierDetector
from keras_likelihood.outliers.scale_detector import (
    AutoencoderScale,
    PCAScale,
    ScaleDetector,
)
from keras_likelihood.outliers.score_detector import ScoreDetector

__all__ = [
    "AutoDetector",
    "AutoencoderScale",
    "OutlierDetector",
    "PCAScale",
    "ScaleDetector",
    "ScoreDetector",
]
