"""Outlier detectors that use predicted scales and temperatures."""

from keras_likelihood.outliers.auto import Auto
from keras_likelihood.outliers.autoencoder_scale import AutoencoderScale
from keras_likelihood.outliers.detector import OutlierDetector
from keras_likelihood.outliers.pca_scale import PCAScale
from keras_likelihood.outliers.scale_detector import ScaleDetector
from keras_likelihood.outliers.score_detector import ScoreDetector

__all__ = [
    "Auto",
    "AutoencoderScale",
    "OutlierDetector",
    "PCAScale",
    "ScaleDetector",
    "ScoreDetector",
]
